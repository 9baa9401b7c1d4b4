"""What is about to run in a folder: written before the first run begins, for whoever watches. A plan lasts as long as
the process that made it. It lies in a folder of its own, which that process holds: several cannot meet.
"""

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tfcsr.errors import OutputError, TfcsrError
from tfcsr.files import at_work, locked, read_json, write_json, writing
from tfcsr.spec import RunSpec

PREFIX, FILE = ".plan-", "plan.json"
MOST_RUNS = 1_000_000  # more is no plan of ours, and would only fill the memory


@dataclass(frozen=True)
class Plan:
    began: int  # nanoseconds since 1970, by the clock of the file system: what begins by this plan is later
    at_once: int  # 0 where the memory of a GPU decides
    runs: dict[str, str]  # the method of each run, by the name of its folder, in their order

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file, which may hold anything. Names in it are compared, never opened."""
        values = read_json(path)
        try:
            began, at_once = path.stat().st_mtime_ns, values["at_once"]
            runs = {run["run"]: run["method"] for run in values["runs"][:MOST_RUNS]}
        except (KeyError, TypeError, OSError):
            runs, at_once = {}, None
        of_text = all(isinstance(text, str) for entry in runs.items() for text in entry)
        if not of_text or type(at_once) is not int or not 0 <= at_once <= MOST_RUNS:
            raise OutputError(f"{path} is damaged: it is no plan of runs; remove its folder")
        return cls(began, at_once, runs)


@contextmanager
def announced(specs: Sequence[RunSpec], at_once: int) -> Iterator[None]:
    """Says what is to run in which folder, as long as the context lasts. Runs that keep nothing are not spoken of."""
    folders: dict[Path, list[RunSpec]] = {}
    for spec in specs:
        if spec.out is not None:
            folders.setdefault(Path(spec.out).parent, []).append(spec)
    with contextlib.ExitStack() as stack:
        for folder, runs in folders.items():
            stack.enter_context(_announced(folder, runs, at_once))
        yield


@contextmanager
def _announced(folder: Path, specs: Sequence[RunSpec], at_once: int) -> Iterator[None]:
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    place = folder / f"{PREFIX}{secrets.token_hex(4)}"
    runs = [{"run": Path(str(spec.out)).name, "method": spec.method, "seed": spec.seed} for spec in specs]
    try:
        with writing(place):
            place.mkdir(parents=True)
        with locked(place):
            _remove_dead(folder)
            write_json(place / FILE, {"at_once": at_once, "runs": runs})
            try:
                yield
            finally:
                _remove(place / FILE)
    finally:
        for path in (place, *new):  # what was made for the plan alone goes with it
            with contextlib.suppress(OSError):
                path.rmdir()


def _remove_dead(folder: Path) -> None:
    """What killed processes have left. A file is there only where its process has had the lock."""
    for path in folder.glob(f"{PREFIX}*/{FILE}"):
        with contextlib.suppress(TfcsrError, OSError):
            with locked(path.parent):
                path.unlink()
            path.parent.rmdir()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def files_of_plans(folder: Path) -> list[Path]:
    """The plans that some process is at work on."""
    try:
        return sorted(path for path in folder.glob(f"{PREFIX}*/{FILE}") if at_work(path.parent))
    except OSError:  # the folder was removed while we look
        return []


def plans_of(files: Sequence[Path]) -> list[Plan]:
    """Those that can be read: the page shows the runs without the others, too."""
    found: list[Any] = []
    for path in files:
        with contextlib.suppress(OutputError):
            found.append(Plan.read(path))
    return found
