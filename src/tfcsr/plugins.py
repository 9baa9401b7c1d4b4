"""A user's modules that add methods, models, benchmarks, policies or schedules: found, imported once, and named to
other processes.

Three ways lead here: `--plugin FILE_OR_MODULE`, the variable TFCSR_PLUGINS (several, separated as in PATH), and the
entry points of installed packages in the group `tfcsr.plugins`.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path

from tfcsr.errors import SpecError, TfcsrError

GROUP = "tfcsr.plugins"
VARIABLE = "TFCSR_PLUGINS"

_sources: dict[str, str] = {}  # by module: what a fresh process has to be given to get it
_looked = False


def load(source: str, known_as: str = "") -> None:
    """Import a plugin: a Python file, or a module by its name. What it registers is known from then on. A copy that was
    made of a file on another machine is known as that file: the module has the name that it has there.
    """
    path = Path(source).expanduser()
    is_file = path.suffix == ".py" or os.sep in source
    if is_file and not path.is_file():
        raise SpecError(f"plugin {source}: there is no such file")
    if is_file:
        path = path.resolve()
        first = Path(known_as) if known_as else path
        name = f"{first.stem}_{hashlib.sha256(str(first).encode()).hexdigest()[:8]}"
        if name not in sys.modules:
            _reach(path.parent)
            _import_file(name, path)
        _sources[name] = str(path)
        return
    _reach(Path.cwd())
    try:
        importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is not None and (source == error.name or source.startswith(f"{error.name}.")):
            raise SpecError(f"plugin {source}: there is no such module; give a file as ./NAME.py") from None
        raise _failed(source, error) from None
    except TfcsrError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(source, error) from None
    _sources[source] = source


def _import_file(name: str, path: Path) -> None:
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        # A script that ends by itself is no plugin; Ctrl-C is no fault of it.
        if isinstance(error, TfcsrError) or not isinstance(error, Exception | SystemExit):
            raise
        raise _failed(str(path), error) from None


def _failed(source: str, error: BaseException) -> SpecError:
    """One line, with the place: whoever wrote the plugin needs it."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f" ({Path(error.filename).name}, line {error.lineno})"
    return SpecError(f"plugin {source} cannot be imported: {type(error).__name__}: {error}{place}")


def _reach(folder: Path) -> None:
    """A plugin may import what lies beside it; last, so that it hides nothing."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def load_announced() -> None:
    """Those of the environment and of installed packages, once: whoever asks for a name needs them."""
    global _looked
    if _looked:
        return
    _looked = True
    for source in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        load(source)
    import importlib.metadata  # late: it takes as long as all of ours

    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            point.load()
        except TfcsrError:
            raise
        except Exception as error:
            raise _failed(f"{point.name} ({point.value})", error) from None
        _sources[point.module] = point.module


def source_of(module: str) -> str | None:
    """What a fresh process has to be given to know what this module adds; None: nothing would do."""
    if module in _sources:
        return _sources[module]
    if module == "__main__":
        return None
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return module if found is not None and found.origin is not None else None
