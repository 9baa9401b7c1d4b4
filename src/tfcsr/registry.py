"""The one place where methods, benchmarks, models, policies and schedules are found by name.

A file in a registry's package is an entry: `methods/tfcsr_spaced.py` is the method `tfcsr-spaced`. So adding one is
adding a file, and names can be listed without importing torch. A user's own comes in with `METHODS.add("name")`, from a
script or from a plugin. A family makes an entry of what its name is followed by: `folder:PATH` is a benchmark.
"""

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tfcsr import plugins
from tfcsr.errors import SpecError

if TYPE_CHECKING:
    from tfcsr.options import Option

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries of one kind by name, each imported only when it is asked for."""

    changes = 0  # how often an entry was added to any registry or removed: what is derived from all of them is kept

    def __init__(
        self,
        kind: str,
        package: str | None = None,
        beside: tuple[str, ...] = ("base",),
        needs: tuple[str, ...] = (),
        families: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.needs = needs  # what an entry must have to be one
        self.package = package
        self.beside = beside  # files of the package that are no entries
        self.families = dict(families or {})  # files that make an entry of what stands behind their name and a colon
        self._added: dict[str, Entry] = {}
        self._options: dict[str, tuple[Option, ...]] = {}
        self._homes: dict[str, str] = {}
        self._bare: dict[Path, bool] = {}

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
        """Every entry that has a name of its own; a family's have none before somebody gives them one."""
        plugins.load_announced()
        return sorted((self._files.keys() | self._added.keys()) - self.families.keys())

    def forms(self) -> list[str]:
        """What can be asked for: the names, and how the entries of a family are written."""
        return [*self.names(), *(f"{family}:{what}" for family, what in self.families.items())]

    def family(self, name: str) -> str | None:
        """The family of `family:rest`, if there is one."""
        family, colon, rest = name.partition(":")
        return family if colon and rest and family in self.families and name not in self._added else None

    def ships(self, name: str) -> bool:
        """Whether it is one of ours, and has not been replaced by somebody else's of that name."""
        return self.home(name).partition(".")[0] == "tfcsr"

    def home(self, name: str) -> str:
        """The module that added it: importing that is what makes it known."""
        name = self.family(name) or name
        if name in self._homes:
            return self._homes[name]
        if name not in self.families:
            self.require(name)
        return f"{self.package}.{name.replace('-', '_')}"

    def describe(self, name: str) -> str:
        """The first line of the entry's docstring (of its file's, for one of ours: read, not imported)."""
        name = self.family(name) or name
        if name in self._files and self.ships(name):
            text = ast.get_docstring(ast.parse(self._files[name].read_text(encoding="utf-8")))
        else:
            text = getattr(self.get(name), "__doc__", None)
        return (text or "").strip().partition("\n")[0]

    def options(self, name: str) -> "tuple[Option, ...]":
        """The settings the entry declares: given to `add`, or its attribute `options`."""
        if family := self.family(name):
            self._member(family)
            return self._options[family]
        if name not in self._added and name in self._files and self._has_none(self._files[name]):
            return ()
        entry = self.get(name)
        return self._options.get(name) or tuple(getattr(entry, "options", ()))

    def _has_none(self, path: Path) -> bool:
        """A file of ours that neither says the word nor builds on another entry has none, and need not be imported: to
        make a spec should not take the second that torch takes.
        """
        if path not in self._bare:
            text = path.read_text(encoding="utf-8")
            builds_on = [node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
            known = {f"{self.package}.{name}" for name in self.beside}
            others = [m for m in builds_on if m.startswith(f"{self.package}.") and m not in known]
            self._bare[path] = "options" not in text and not others
        return self._bare[path]

    def require(self, name: str) -> None:
        if self.family(name):
            return
        known = (name in self._added or name in self._files) and name not in self.families
        if not known and name not in self.names():
            raise SpecError(
                f"unknown {self.kind} {name!r}: use one of {', '.join(self.forms())}, or give the plugin that has it"
                " with --plugin"
            )

    def get(self, name: str) -> Entry:
        self.require(name)
        if family := self.family(name):
            # Made anew each time: what it stands for, a folder say, may have changed.
            entry: Entry = self._member(family)(name.removeprefix(f"{family}:"))
            self._require_whole(name, entry, ())
            return entry
        found: Entry = self._member(name)
        return found

    def _member(self, name: str) -> Any:
        if name not in self._added:
            importlib.import_module(f"{self.package}.{name.replace('-', '_')}")
        return self._added[name]

    def add(self, name: str, *, options: "Sequence[Option]" = ()) -> Callable[[Entry], Entry]:
        """Register under this name; usable as a decorator. `options` are those of an entry that has no such attribute,
        a function: it is called with their values as keyword arguments.
        """
        # Not `entry.__module__`: an instance, such as a benchmark, has that of its class.
        home = str(sys._getframe(1).f_globals.get("__name__", "__main__"))

        def register(entry: Entry) -> Entry:
            self._require_whole(name, entry, options)
            self._added[name] = entry
            self._homes[name] = home
            self._options[name] = tuple(options)
            Registry.changes += 1
            return entry

        return register

    def _require_whole(self, name: str, entry: Entry, options: "Sequence[Option]") -> None:
        """Refuse what is none of this kind where it is registered, and not when a run comes to it."""
        from tfcsr.options import Option  # late: options know registries

        needs = () if name in self.families else self.needs
        if missing := [attribute for attribute in needs if not hasattr(entry, attribute)]:
            raise SpecError(f"{self.kind} {name!r} has no {missing[0]}: derive it from {self.kind.capitalize()}")
        for option in (*options, *getattr(entry, "options", ())):
            if not isinstance(option, Option):
                raise SpecError(f"{self.kind} {name!r} lists {option!r} among its options: use Option(name, ...)")

    def remove(self, name: str) -> None:
        """Forget what was added; one of our own files comes back when it is asked for again."""
        for known in (self._added, self._options, self._homes):
            known.pop(name, None)
        if name in self._files:
            sys.modules.pop(f"{self.package}.{name.replace('-', '_')}", None)
        Registry.changes += 1
