# Both targets set up everything they need: a virtual environment in .venv and a pip install into it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test clean

demo: $(READY)
	@$(BIN)/tfcsr compare --benchmark split-digits --methods all --seeds 5 --out results/demo
	@$(BIN)/tfcsr report results/demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"tfcsr needs Python 3.11 or newer, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.12")'
	@echo "installing into .venv (once; about a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
