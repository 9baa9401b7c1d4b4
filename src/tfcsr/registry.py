"""The one place where methods, benchmarks, models, policies and schedules are found by name.

A file in a registry's package is an entry: `methods/tfcsr_spaced.py` is the method `tfcsr-spaced`. So adding one is
adding a file, and names can be listed without importing torch. A user's own comes in with `METHODS.add("name")`.
"""

import ast
import functools
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tfcsr.errors import SpecError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries of one kind by name, each imported only when it is asked for."""

    def __init__(self, kind: str, package: str | None = None, beside: tuple[str, ...] = ("base",)) -> None:
        self.kind = kind
        self.package = package
        self.beside = beside  # files of the package that are no entries
        self._added: dict[str, Entry] = {}

    @functools.cached_property
    def _files(self) -> dict[str, Path]:
        if self.package is None:
            return {}
        found = importlib.util.find_spec(self.package)
        assert found is not None
        assert found.submodule_search_locations is not None
        folder = Path(next(iter(found.submodule_search_locations)))
        return {path.stem.replace("_", "-"): path for path in folder.glob("[!_]*.py") if path.stem not in self.beside}

    def names(self) -> list[str]:
        return sorted(self._files.keys() | self._added.keys())

    def ships(self, name: str) -> bool:
        """Whether it is one of ours, a file of the package."""
        return name in self._files

    def is_built_in(self, name: str) -> bool:
        """Whether another process of tfcsr would find it too."""
        return self.ships(name) or getattr(self.get(name), "__module__", "").startswith("tfcsr.")

    def describe(self, name: str) -> str:
        """The first line of the entry's docstring (of its file's, for a built-in one: read, not imported)."""
        if name in self._files:
            text = ast.get_docstring(ast.parse(self._files[name].read_text(encoding="utf-8")))
        else:
            text = getattr(self.get(name), "__doc__", None)
        return (text or "").strip().partition("\n")[0]

    def get(self, name: str) -> Entry:
        if name not in self._added:
            if name not in self._files:
                raise SpecError(f"unknown {self.kind} {name!r}: use one of {', '.join(self.names())}")
            importlib.import_module(f"{self.package}.{name.replace('-', '_')}")
        return self._added[name]

    def add(self, name: str) -> Callable[[Entry], Entry]:
        """Register under this name; usable as a decorator."""

        def register(entry: Entry) -> Entry:
            self._added[name] = entry
            return entry

        return register
