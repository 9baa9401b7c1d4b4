# Each target sets up what it needs by itself: a virtual environment and a pip install into it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The tests need more than the product: linters, a browser driver, libraries to compare with.
TESTS_READY := .venv/.ready-to-test
TOOLS := build/tools/bin
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test package clean
# Two targets at once would install into one environment.
.NOTPARALLEL:

demo: $(READY)
	@$(BIN)/tfcsr compare --benchmark split-digits --methods all --seeds 5 --out results/demo
	@$(BIN)/tfcsr report results/demo

# Else every process would compile the tests again.
test: export PYTHONDONTWRITEBYTECODE =
test: $(TESTS_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist worksteal

define environment
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"tfcsr needs Python 3.11 or newer, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.12")'
	@echo "installing $(1) (once; about a minute)"
	@$(PYTHON) -m venv $(2)
endef

# pip would compile on one core, which takes as long as the rest. Some libraries ship files that do not compile.
define editable
	@$(BIN)/python $(PIP) --no-compile --constraint constraints.txt --editable '$(1)'
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
endef

$(READY): pyproject.toml constraints.txt
	$(call environment,tfcsr into .venv,.venv)
	$(call editable,.)
	@touch $@

$(TESTS_READY): pyproject.toml constraints.txt
	$(call environment,tfcsr and its tests into .venv,.venv)
	$(call editable,.[test])
	@touch $(READY) $@

# The wheel is installed and run where nothing of the repository is in reach.
package: $(TOOLS)/twine
	@rm -rf dist
	@$(TOOLS)/python -m build --outdir dist .
	@$(TOOLS)/twine check --strict dist/*
	@set -e; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	echo "installing $$(echo dist/*.whl) into a clean environment (about a minute)"; \
	$(PYTHON) -m venv "$$place/venv"; \
	"$$place/venv/bin/python" $(PIP) --constraint constraints.txt dist/*.whl; \
	"$$place/venv/bin/python" -m pip check --disable-pip-version-check; \
	(cd "$$place"; unset PYTHONPATH; \
	  venv/bin/python -c 'import sys, tfcsr; tfcsr.__file__.startswith(sys.prefix) or sys.exit(f"not the wheel: {tfcsr.__file__}")'; \
	  venv/bin/tfcsr run --benchmark split-digits --method tfcsr --epochs 1 --max-per-class 20 --out run; \
	  venv/bin/tfcsr report run)
	@echo "$$(echo dist/*): built, checked, installed into a clean environment, and run there"

$(TOOLS)/twine:
	$(call environment,build and twine into build/tools,build/tools)
	@$(TOOLS)/python $(PIP) build twine

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
