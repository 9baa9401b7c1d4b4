"""What is shipped: the files of the wheel, what it asks to be installed, and what says which version it is."""

import ast
import re
import sys
import tomllib
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import tfcsr

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tfcsr"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions that are not called as what they are imported by.
IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}
# What comes with a required distribution and is used beside it: with pooch, and with jinja2.
BROUGHT = {"requests", "markupsafe"}


def shipped(builder: type) -> set[str]:
    return {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}


def modules(requirements: list[str]) -> set[str]:
    names = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements]
    return {IMPORTED_AS.get(name, name) for name in names}


def imported() -> set[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"tfcsr"}


def test_the_wheel_has_every_file_of_the_package():
    ours = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.suffix for path in ours} >= {".py", ".css", ".js", ".html", ".npz", ".txt", ".typed"}
    assert shipped(WheelBuilder) == {path.relative_to(SOURCE.parent).as_posix() for path in ours}


def test_the_sdist_can_be_tested_and_has_nothing_that_was_made_here():
    found = shipped(SdistBuilder)
    assert {"LICENSE", "Makefile", "constraints.txt", "README.md", "CHANGELOG.md", "CITATION.cff"} <= found
    assert "src/tfcsr/data/digits.npz" in found
    assert "tests/test_package.py" in found
    assert not {path.partition("/")[0] for path in found} & {".venv", ".carry", "results", "build", "dist"}
    assert not [path for path in found if "__pycache__" in path]


def test_what_is_imported_is_installed_and_nothing_else():
    required = modules(PROJECT["dependencies"])
    groups = PROJECT["optional-dependencies"]
    extras = set().union(*(modules(groups[name]) for name in groups if name != "test"))
    assert imported() - BROUGHT <= required | extras
    assert required <= imported()


def test_the_citation_is_of_this_version():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {tfcsr.__version__}" in lines
    assert "cff-version: 1.2.0" in lines


def test_the_changes_of_this_version_are_written_down_and_versions_descend():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+) \((?:in work|\d{4}-\d{2}-\d{2})\)$", text, re.MULTILINE)
    assert versions[0] == tfcsr.__version__
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)
    assert len(versions) == text.count("\n## ")


def test_the_licence_names_that_of_the_digits():
    assert PROJECT["license"] == "MIT AND CC-BY-4.0"
    assert all((ROOT / path).is_file() for path in PROJECT["license-files"])
    assert "Attribution 4.0" in (SOURCE / "data" / "digits.txt").read_text(encoding="utf-8")
