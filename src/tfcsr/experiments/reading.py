"""A folder of runs as it stands: complete, under way, stopped or damaged. Whoever looks again reads only what is new.

Nothing here writes, waits for a lock or stops at a bad file: a run that cannot be read is one to be told of.
"""

import functools
import hashlib
import os
import sys
from array import array
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

from tfcsr.errors import OutputError, printable
from tfcsr.experiments.history import HISTORY
from tfcsr.experiments.plan import Plan, files_of_plans, plans_of
from tfcsr.experiments.result import Result, misnamed, shortened
from tfcsr.experiments.told import MOST_TASKS, Probe, Tail, Told
from tfcsr.files import at_work, read_json
from tfcsr.garbage import uncollected
from tfcsr.spec import ORIGIN

State = Literal["complete", "running", "stopped", "failed", "damaged"]


class Shared:
    """Results in little room: what many say alike is kept once, and tables of numbers as such."""

    ALIKE = (
        *("class_names", "classes_per_task", "environment", "epochs_per_task", "origin", "recall_asked", "test_sizes"),
        "untrained_accuracy",
    )
    TABLES: ClassVar = {"accuracy_matrix": "d", "class_accuracy": "d", "recall_right": "q"}

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def __call__(self, result: Result) -> Result:
        """The same result. A row of a table is an array now, which is read as a list is."""
        less: dict[str, Any] = {}
        for name in self.ALIKE:
            value = getattr(result, name)
            key = hashlib.sha256(repr(value).encode(errors="replace")).digest()
            less[name] = self._known.setdefault(key, value)
        for name, kind in self.TABLES.items():
            less[name] = [row if row is None else array(kind, row) for row in getattr(result, name)]
        less["spec"] = {sys.intern(k): sys.intern(v) if type(v) is str else v for k, v in result.spec.items()}
        return replace(result, **less)


class Run:
    """One run's folder, as it was at the last look."""

    def __init__(self, path: Path, shared: Shared | None = None) -> None:
        self.path = path
        self.name = path.name or path.resolve().name
        self.spec: dict[str, Any] = {}
        self.result: Result | None = None
        self.state: State = "damaged"
        self.words = ""
        self.begun = self.ended = 0  # nanoseconds since 1970; one that was resumed has begun anew
        self._seen: Any = None
        self._origin: Any = {}
        self._shared = shared or Shared()

    @functools.cached_property
    def _tail(self) -> Tail:
        return Tail(self.path / "events.jsonl")

    def look(self) -> bool:
        """Read what is new; whether anything is."""
        files = [_signature(self.path / name) for name in ("result.json", "spec.json")]
        if files[0] is not None:
            seen: Any = ("complete", *files)
        else:
            seen = ("begun", *files, _signature(self._tail.path), at_work(self.path))
        if seen == self._seen:
            return False
        self._seen = seen
        self.ended, self.begun = (0 if there is None else there[0] for there in files)
        self.result, self.spec = None, {}
        try:
            if files[0] is not None:
                whole = Result.from_dict(read_json(self.path / "result.json"), "result.json")
                self.result = self._shared(whole)
                self.spec, self.state, self.words = self.result.spec, "complete", "complete"
            else:
                self.spec = _spec(read_json(self.path / "spec.json"))
                self._origin = self.spec.pop(ORIGIN, {})
                self._tail.look()
                self._judge(seen[-1])
        except OutputError as error:
            message = str(error).replace(f"{self.path}/", "")
            self.state, self.words = "damaged", message.removesuffix("; move it away to run again")
        return True

    def _judge(self, running: bool) -> None:
        told = self._tail.told
        where = f"task {told.task} of {self.tasks}, epoch {told.epoch} of {told.epochs}"
        if running:
            self.state, self.words = "running", where if told.epoch else "beginning"
        elif told.failed:
            self.state, self.words = "failed", told.failed
        else:
            self.state = "stopped"
            self.words = f"stopped in {where}" if told.epoch else "stopped before its first epoch was done"
        if told.unread:
            self.words += f"; {told.unread} of the lines in events.jsonl cannot be read"

    @property
    def told(self) -> Told:
        """Of a complete run only who asks for it has to wait: thousands are listed without."""
        if self.result is not None:
            self._tail.look()
        return self._tail.told

    @property
    def origin(self) -> Any:
        """Where it comes from beside its spec, as far as it says."""
        return self.result.origin if self.result is not None else self._origin

    @property
    def tasks(self) -> int:
        """How many there are; 0 where nothing says so."""
        if self.result is not None:
            return len(self.result.accuracy_matrix)
        said = self.spec.get("tasks")
        return len(self._tail.told.classes) or (said if type(said) is int and 0 < said <= MOST_TASKS else 0)

    @property
    def accuracies(self) -> list[float | None]:
        return self.result.accuracy_after_task if self.result else self._tail.told.accuracies

    @property
    def matrix(self) -> list[list[float] | None]:
        return self.result.accuracy_matrix if self.result else self._tail.told.matrix

    @property
    def classes(self) -> list[list[int]]:
        return self.result.classes_per_task if self.result else self._tail.told.classes

    @property
    def class_names(self) -> list[str]:
        """By label; empty where nothing says them."""
        return self.result.class_names if self.result else self._tail.told.class_names

    @property
    def collapsed(self) -> int | None:
        return self.result.collapsed if self.result else self._tail.told.collapsed

    def probes(self) -> list[Probe]:
        """Each with what it found of each class, where the events still say so."""
        if self.result is None:
            return [probe for probe in self._tail.told.probes if probe.task <= self.tasks]
        if not self.result.probes:
            return []
        found = {(p.task, p.epoch): p.per_class for p in self.told.probes}
        return [
            Probe(
                p["task"], p["epoch"], p["recall"], p["passed"], p["next_epoch"], found.get((p["task"], p["epoch"]), {})
            )
            for p in self.result.probes
        ]


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_mtime_ns, there.st_size, there.st_ino


def _spec(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict) or misnamed(values) in ("benchmark", "method", "seed"):
        raise OutputError("spec.json is damaged: it does not say benchmark, method and seed")
    if (name := misnamed(values)) is not None:
        raise OutputError(f"spec.json is damaged: {name} is {shortened(values[name])}")
    return values


@dataclass(frozen=True)
class Outlook:
    """What is to come: how many planned runs have not begun, and how long everything takes, if anything tells."""

    waiting: int
    seconds: float | None


class Results:
    """A folder of run folders, itself or under `runs` as a reproduction has them; or the folder of one run."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            what = "is not a folder" if self.folder.exists() else "does not exist"
            raise OutputError(f"{folder} {what}: give the folder of a run, or of a comparison")
        if (self.folder / HISTORY).exists():
            raise OutputError(f"{folder} holds a learner, not a run: `tfcsr report {folder}` shows it")
        self.baseline: str | None = None
        self.errors: dict[str, str] = {}  # of runs that ended before they had anything to write
        self._runs: dict[str, Run] = {}
        self._shared = Shared()
        self._comparison: Any = None
        self._plans: dict[str, list[Plan]] = {}
        self._planned: Any = None

    @property
    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def look(self) -> bool:
        """Read what is new since the last look; whether anything is."""
        names = sorted(self._names())
        changed = list(self._runs) != names
        self._runs = {name: self._runs.get(name) or Run(self.folder / name, self._shared) for name in names}
        with uncollected():
            for run in self._runs.values():
                changed = run.look() or changed
        files = [self.folder / "comparison.json", *sorted(self.folder.glob("comparison-*.json"))]
        signature = [_signature(path) for path in files]
        if signature != self._comparison:
            self._comparison, changed = signature, True
            self._read_comparisons(files)
        plans = {place: files_of_plans(self.folder / place) for place in ("", "runs/")}
        planned = [(path, _signature(path)) for files in plans.values() for path in files]
        if planned != self._planned:
            self._planned, changed = planned, True
            self._plans = {place: plans_of(files) for place, files in plans.items()}
        return changed

    def outlook(self) -> Outlook:
        """By the plans of the processes that are at work here, and by the pace of the runs that are in no plan."""
        under_way = {name: run for name, run in self._runs.items() if run.state == "running"}
        to_come: set[str] = set()
        ends: list[float | None] = []
        for place, plans in self._plans.items():
            for plan in plans:
                planned = {place + name: method for name, method in plan.runs.items()}
                expected = self._expected(planned, plan.began)
                running = [_seconds_left(under_way.pop(name), expected) for name in planned if name in under_way]
                todo = [name for name in planned if name not in to_come and self._is_to_come(name, plan.began)]
                to_come.update(todo)
                if running or todo:
                    ends.append(_last_end(running, [expected.get(planned[name]) for name in todo], plan.at_once))
        ends += [left for run in under_way.values() if (left := _seconds_left(run, {})) is not None]
        known = [end for end in ends if end is not None]
        waiting = len(to_come - self._runs.keys())  # those that were stopped before and will go on are there already
        return Outlook(waiting, max(known) if known and len(known) == len(ends) else None)

    def _is_to_come(self, name: str, began: int) -> bool:
        run = self._runs.get(name)
        # What was begun since then and is neither complete nor under way has failed: it is not tried again.
        return run is None or (run.state in ("stopped", "failed") and run.begun < began)

    def _expected(self, planned: dict[str, str], began: int) -> dict[str, float]:
        """Seconds that a run of each planned method takes: as long as complete ones took; else at the pace of those
        under way; else as long as the other methods.
        """
        complete: dict[str, list[float]] = {}
        under_way: dict[str, list[float]] = {}
        for name, method in planned.items():
            run = self._runs.get(name)
            if run is not None and run.result is not None:
                # By the clock it is more: loading and saving count. Of older ones the files may be copies.
                by_clock = (run.ended - run.begun) / 1e9 if run.begun >= began else 0.0
                complete.setdefault(method, []).append(max(run.result.seconds, by_clock))
            elif run is not None and (seconds := run.told.seconds_in_all(run.tasks)) is not None:
                under_way.setdefault(method, []).append(seconds)
        found = {method: fmean(values) for method, values in (under_way | complete).items()}
        others = fmean(found.values()) if found else None
        return found if others is None else {method: found.get(method, others) for method in planned.values()}

    def _names(self) -> list[str]:
        if _is_run(str(self.folder)):
            return ["."]
        return [*_runs_in(self.folder), *(f"runs/{name}" for name in _runs_in(self.folder / "runs"))]

    def _read_comparisons(self, files: list[Path]) -> None:
        """What `compare` left beside its runs, once or several times; the first baseline holds. Others' files of that
        name say nothing to us.
        """
        self.baseline, self.errors = None, {}
        for path in files:
            try:
                said = read_json(path)
            except OutputError:
                continue
            said = said if isinstance(said, dict) else {}
            baseline, errors = said.get("baseline"), said.get("errors")
            if self.baseline is None and isinstance(baseline, str):
                self.baseline = baseline
            errors = errors if isinstance(errors, dict) else {}
            self.errors |= {name: printable(text) for name, text in errors.items() if isinstance(text, str)}


def _seconds_left(run: Run, expected: dict[str, float]) -> float | None:
    """At its own pace; where that is not known yet, as long as others took."""
    left = run.told.seconds_left(run.tasks)
    if left is None and (whole := expected.get(run.spec["method"])) is not None:
        left = whole * (1 - run.told.share(run.tasks))
    return left


def _last_end(running: list[float | None], waiting: list[float | None], at_once: int) -> float | None:
    """When the last is done: of those that wait, each begins where a place becomes free."""
    if None in running or None in waiting:
        return None
    ends = [end for end in running if end is not None]
    heapify(ends)
    for seconds in waiting:
        free = heappop(ends) if len(ends) >= max(1, at_once or len(running)) else 0.0
        heappush(ends, free + (seconds or 0.0))
    return max(ends, default=0.0)


def _runs_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and _is_run(entry.path)]
    except OSError:  # not there, or removed while we look: then there is nothing
        return []


def _is_run(path: str) -> bool:
    # A Path for each of ten thousand would cost more than the looking.
    if os.path.exists(f"{path}/result.json"):  # noqa: PTH110
        return True
    return os.path.exists(f"{path}/spec.json") and not os.path.exists(f"{path}/{HISTORY}")  # noqa: PTH110
