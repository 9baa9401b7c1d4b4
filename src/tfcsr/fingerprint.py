"""What code and data are, in a few letters, so that a result of other code or data is not taken for this one's."""

import contextlib
import dis
import functools
import hashlib
import importlib
import importlib.util
import io
import logging
import os
import sys
import types
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 1 << 24
LETTERS = 16


def of_arrays(arrays: Iterable[np.ndarray]) -> str:
    """Of the content, shape and type of arrays; half a second for a gigabyte on two cores."""
    digest = hashlib.sha256()
    for array in arrays:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        parts = [raw[start : start + CHUNK] for start in range(0, len(raw), CHUNK)]
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if len(parts) == 1:
            digest.update(_sha256(parts[0]))
            continue
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for part in pool.map(_sha256, parts):
                digest.update(part)
    return digest.hexdigest()[:LETTERS]


def _sha256(part: np.ndarray) -> bytes:
    return hashlib.sha256(part.data).digest()


def of_code(entry: Any, home: str = "") -> str:
    """Of a function, class or object that is not ours, and of what it is made of: the bytecode and constants of its
    functions, the values it refers to, and so on through every module that is not installed. Comments and line numbers
    make no difference; another version of Python may. `home` is the module that registered it.
    """
    walk = _Walk(_package(home or _module(entry)))
    walk.see(entry)
    return walk.digest.hexdigest()[:LETTERS]


class _Walk:
    def __init__(self, package: str) -> None:
        self.package = package  # whose code is looked into, wherever it is installed
        self.digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # an id is an object's only as long as that lives

    def say(self, *words: object) -> None:
        self.digest.update(repr(words).encode())

    def see(self, value: Any) -> None:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | type(...)):
            self.say(type(value).__name__, value)
            return
        if id(value) in self.seen:
            self.say("again", self.seen[id(value)])
            return
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        if isinstance(value, types.CodeType):
            self.code(value)
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            self.say("array", value.shape)
            self.see(value.tolist())
        elif isinstance(value, np.ndarray):
            self.say("array", of_arrays([value]))
        elif isinstance(value, os.PathLike):
            self.say(type(value).__name__, os.fspath(value))
        elif isinstance(value, logging.Logger | logging.Handler | io.IOBase):
            self.say(type(value).__name__, str(getattr(value, "name", "")))
        elif type(value).__module__ == "tfcsr.registry":
            self.say("registry", value.kind)
        elif isinstance(value, Mapping):
            self.say("mapping", len(value))
            for key, entry in value.items():
                self.see(key)
                self.see(entry)
        elif isinstance(value, list | tuple):
            self.say(type(value).__name__, len(value))
            for entry in value:
                self.see(entry)
        elif isinstance(value, set | frozenset):
            self.say("set", sorted(map(repr, value)))
        elif isinstance(value, functools.partial):
            self.see((value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self.see((value.__func__, value.__self__))
        elif isinstance(value, staticmethod | classmethod):
            self.see(value.__func__)
        elif isinstance(value, property):
            self.see((value.fget, value.fset))
        elif isinstance(value, types.ModuleType):
            self.say("module", value.__name__)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, type):
            self.kind(value)
        else:
            self.thing(value)

    def follows(self, module: str) -> bool:
        """Whether code is looked into: the entry's own package, and what lies in no library."""
        if _package(module) == self.package:
            return True
        return _package(module) != "tfcsr" and not _installed(module)

    def name(self, value: Any) -> None:
        self.say(_module(value), getattr(value, "__qualname__", type(value).__qualname__))

    def function(self, value: types.FunctionType) -> None:
        if not self.follows(_module(value)):
            self.name(value)
            return
        self.see((value.__code__, value.__defaults__, value.__kwdefaults__))
        for cell in value.__closure__ or ():
            try:
                self.see(cell.cell_contents)
            except ValueError:  # not filled yet
                self.say("empty")
        for name in sorted(_names(value.__code__)):
            if name in value.__globals__:
                self.say(name)
                self.see(value.__globals__[name])
        # What is called through a module: helpers.loss(...), lab.helpers.loss(...), or imported within.
        names = _names(value.__code__)
        for name in sorted(names):
            if isinstance(module := value.__globals__.get(name), types.ModuleType):
                self.through(module, names)
        for name in sorted(_imports(value.__code__)):
            if self.follows(name) and not _lies_in_library(name):
                with contextlib.suppress(ImportError):
                    self.through(importlib.import_module(name), names)

    def through(self, module: types.ModuleType, names: set[str]) -> None:
        if not self.follows(module.__name__):
            return
        for name in sorted(names & vars(module).keys()):
            found = vars(module)[name]
            known = id(found) in self.seen
            self.see(found)
            if isinstance(found, types.ModuleType) and not known:
                self.through(found, names)

    def code(self, value: types.CodeType) -> None:
        self.say("code", value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_flags)
        for constant in value.co_consts:
            self.see(constant)

    def kind(self, value: type) -> None:
        if not self.follows(value.__module__):
            self.name(value)
            return
        self.say("class", value.__qualname__)
        for base in value.__bases__:
            self.see(base)
        for name, entry in sorted(vars(value).items()):
            if name not in _ABOUT:
                self.say(name)
                self.see(entry)

    def thing(self, value: Any) -> None:
        """An object: its class, and what it holds."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            self.say("tensor", str(value.dtype), tuple(value.shape), of_arrays([raw]))
            return
        self.see(type(value))
        slots = [s for kind in type(value).__mro__ for s in getattr(kind, "__slots__", ()) if hasattr(value, s)]
        held = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
        if held:
            self.see(held)
        elif " at 0x" not in repr(value):
            self.say(repr(value))


# What a class has of itself, and what says where it stands and not what it does.
_ABOUT = {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "__slots__"}
_ABOUT |= {"__abstractmethods__", "_abc_impl", "__annotations__", "__annotate_func__", "__annotations_cache__"}


def _names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _imports(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    own = {i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    return own.union(*map(_imports, inner))


def _lies_in_library(module: str) -> bool:
    try:
        found = importlib.util.find_spec(_package(module))
    except (ImportError, ValueError):
        return True
    return found is None or bool({"site-packages", "dist-packages"} & set(Path(found.origin or "").parts))


def _module(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _package(module: str) -> str:
    return module.partition(".")[0]


@functools.cache
def _installed(module: str) -> bool:
    """Whether it is Python's or a library's."""
    package = _package(module)
    if package in sys.stdlib_module_names or package == "builtins":
        return package != "__main__"
    loaded = sys.modules.get(package)
    file = getattr(loaded, "__file__", None) if loaded is not None else None
    if file is None:
        return False
    return bool({"site-packages", "dist-packages"} & set(Path(file).parts))
