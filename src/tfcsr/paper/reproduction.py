"""The paper again: which runs its targets need, which of them there are, and what they say about what was published."""

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError, TfcsrError
from tfcsr.experiments.folder import RunFolders
from tfcsr.experiments.origin import Origins, changes, origin
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import Estimate, estimate, optional_estimate, prediction_interval
from tfcsr.experiments.stop import Stop
from tfcsr.files import require_folder
from tfcsr.paper.published import ARMS, GRIDS, GROUPS, NAMES, TARGETS, Grid, Published, Row, Target, audit_arms
from tfcsr.paper.record import Record, Records, dense, question
from tfcsr.spec import RunSpec

Watcher = Callable[[RunSpec, Any], None]


def chosen(names: Iterable[str]) -> list[str]:
    """The targets meant by these names, groups opened, each once, in the paper's order; the audit last."""
    wanted: set[str] = set()
    for name in names:
        if name not in NAMES:
            raise SpecError(f"unknown target {name!r}: use one of {', '.join(NAMES)}")
        wanted |= set(GROUPS.get(name, (name,)))
    return [name for name in (*TARGETS, "audit") if name in wanted]


def arms_of(targets: Iterable[str]) -> list[str]:
    names = [arm for name in targets for arm in (audit_arms() if name == "audit" else TARGETS[name].arms())]
    return list(dict.fromkeys(names))


class Study:
    """The targets, the data they run on, and the records there are."""

    def __init__(self, targets: Sequence[str], seeds: Sequence[int], data: str | None, records: Records) -> None:
        self.targets = chosen(targets)
        self.seeds = list(seeds)
        self.data = data
        self.records = records
        self._by_question = {question(record.run_spec): record for record in reversed(records.runs)}

    def specs(self, arm: str) -> dict[int, tuple[RunSpec, RunSpec]]:
        """By seed, the arm's run and the one that holds it."""
        entry = ARMS[arm]
        seeds = self.seeds[: entry.most_seeds]
        specs = {seed: entry.spec(seed, self.data) for seed in seeds}
        return {seed: (spec, spec if entry.alone else dense(spec)) for seed, spec in specs.items()}

    def plan(self) -> list[RunSpec]:
        """Every run the targets need, each once: tables and figures first, then what only the audit asks for; a seed's
        after the other's, so that what is there can be paired.
        """
        runs: list[RunSpec] = []
        for targets in ([name for name in self.targets if name != "audit"], self.targets):
            arms = [self.specs(name) for name in arms_of(targets)]
            runs += [arm[seed][1] for seed in self.seeds for arm in arms if seed in arm]
        return list({question(spec): spec for spec in runs}.values())

    def missing(self, benchmark: str | None = None) -> list[RunSpec]:
        """What has yet to run; of one benchmark, or of all."""
        specs = [spec for spec in self.plan() if benchmark in (None, spec.benchmark)]
        if not specs:
            there = sorted({spec.benchmark for spec in self.plan()})
            raise SpecError(f"benchmark {benchmark}: none of these runs is on it, but on {', '.join(there)}")
        return [spec for spec in specs if question(spec) not in self._by_question]

    def add(self, record: Record) -> None:
        if question(record.run_spec) not in self._by_question:
            self.records.runs.append(record)
            self._by_question[question(record.run_spec)] = record

    def of(self, arm: str) -> dict[int, Record]:
        """The records of an arm by seed, as far as there are any."""
        found = {}
        for seed, (spec, holder) in self.specs(arm).items():
            record = self._by_question.get(question(holder))
            if record is not None:
                found[seed] = record if holder is spec else record.seen_by(spec)
        return found

    def name(self, spec: RunSpec) -> str:
        """What the paper's layout calls this run: the first arm it serves."""
        return f"{self._arm_of[question(spec)]} seed {spec.seed}"

    @functools.cached_property
    def _arm_of(self) -> dict[Any, str]:
        arms = reversed(arms_of(self.targets))
        return {question(holder): arm for arm in arms for _, holder in self.specs(arm).values()}

    def published(self, row: Row) -> Published | None:
        """Only the paper's own data can be held against its numbers."""
        return row.value if self.data is None else None

    def lines(self, target: Target) -> list["Line"]:
        return [
            Line(row.label, row.arm, quantity, None if known is None else known.value(quantity), self.of(row.arm))
            for row in (*target.rows, *target.more)
            for known in [self.published(row)]
            for quantity in target.quantities
            # How long a run was is of interest where the method decides it.
            if quantity != "epochs" or (row.value is not None and row.value.epochs_per_task is not None)
        ]

    def curves(self, target: Target) -> list["Curve"]:
        rows = [(row, self.of(row.arm)) for row in target.rows]
        return [
            Curve(row, None if known is None else known.curve, [r.accuracy_after_task for r in runs.values()])
            for row, runs in rows
            for known in [self.published(row)]
        ]

    def choices(self, names: Iterable[str]) -> list["Choice"]:
        """Over the seeds that every value was tried with."""
        chosen = []
        for name in names:
            tried = {value: self.of(GRIDS[name].arm(value)) for value in GRIDS[name].values}
            seeds = [seed for seed in self.seeds if all(seed in runs for runs in tried.values())]
            chosen.append(Choice(GRIDS[name], {v: [runs[seed] for seed in seeds] for v, runs in tried.items()}))
        return chosen


def verdict(published: float | None, values: Sequence[float]) -> str:
    """A published single run is consistent when it lies in the 95 % prediction interval of ours."""
    if published is None:
        return ""
    interval = prediction_interval(values)
    if interval is None:
        return "open: one run has no interval" if values else "open: no runs"
    # Published with two decimals; a count that never varies has an interval of one point.
    low, high = interval
    return "consistent" if low - 0.005 <= published <= high + 0.005 else "not consistent"


@dataclass(frozen=True)
class Line:
    """One quantity of one row: what was published, and ours."""

    label: str
    arm: str
    quantity: str
    published: float | None
    runs: dict[int, Record]

    @property
    def values(self) -> list[float]:
        return [record.value(self.quantity) for record in self.runs.values()]

    @property
    def estimate(self) -> Estimate | None:
        return optional_estimate(self.values)

    @property
    def deviation(self) -> float | None:
        return stdev(self.values) if len(self.runs) > 1 else None

    @property
    def verdict(self) -> str:
        return verdict(self.published, self.values)

    @property
    def collapsed(self) -> int:
        return sum(record.collapsed is not None for record in self.runs.values())


@dataclass(frozen=True)
class Curve:
    """Accuracy after each task: the published curve, and ours with its bands."""

    row: Row
    published: tuple[float, ...] | None
    runs: list[list[float]]

    @property
    def points(self) -> list[Estimate]:
        return [estimate(values) for values in zip(*self.runs, strict=True)]

    @property
    def inside(self) -> int | None:
        """How many of the published points lie in our prediction intervals."""
        if self.published is None or len(self.runs) < 2:
            return None
        columns = zip(*self.runs, strict=True)
        return sum(verdict(p, column) == "consistent" for p, column in zip(self.published, columns, strict=True))


@dataclass(frozen=True)
class Choice:
    """A setting chosen on the test set, as the paper did, and the same choice on held-out training data."""

    grid: Grid
    runs: dict[float, list[Record]]

    @property
    def complete(self) -> bool:
        return all(self.runs.values())

    def test_accuracy(self, value: float) -> float:
        return fmean(record.final_accuracy for record in self.runs[value])

    def held_out_accuracy(self, value: float) -> float:
        return fmean(record.held_out_accuracy or 0.0 for record in self.runs[value])

    @property
    def by_test(self) -> float:
        return max(self.runs, key=self.test_accuracy)

    @property
    def by_held_out(self) -> float:
        return max(self.runs, key=self.held_out_accuracy)

    @property
    def worth(self) -> float:
        """By how many points of test accuracy looking at the test set was better."""
        return self.test_accuracy(self.by_test) - self.test_accuracy(self.by_held_out)


def open_study(
    targets: Sequence[str],
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path,
    data: str | None = None,
    also: Iterable[str | Path] = (),
) -> Study:
    """What there is, without running anything: the runs in `out/results.json`, complete ones in `out/runs`, and those
    in the files and folders of `also`.
    """
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise SpecError(f"seeds {numbers} must be at least one, each once")
    if data is not None and data not in BENCHMARKS.names():
        raise SpecError(f"unknown data {data!r}: use one of {', '.join(BENCHMARKS.names())}")
    records = Records()
    out = Path(out)
    require_folder(out)
    for path in also:
        if not Path(path).exists():
            raise SpecError(f"also {path}: there is nothing; give a results.json, or a folder of runs")
    for source in (out / "results.json", out / "runs", *map(Path, also)):
        if source.exists():
            found = Records.read(source)
            found.runs = [record for record in found.runs if not _outdated(record)]
            records.merge(found)
    return Study(targets, numbers, data, records)


def _outdated(record: Record) -> bool:
    """Whether a run was made with other code than there is now; of ours, with a version that gave other weights.
    Whether the data is still the same is not asked: a study is read where there is none.
    """
    return bool(changes(record.origin, origin(record.run_spec, record.origin.get("data", ""))))


def run_missing(
    study: Study,
    out: str | Path,
    *,
    benchmark: str | None = None,
    workers: int = 0,
    device: str = "auto",
    data_dir: str | None = None,
    command: str = "",
    watcher: Watcher = lambda spec, news: None,
    stop: Stop | None = None,
) -> dict[str, str]:
    """Run what the study's targets need and is not yet known, of one benchmark or of all, and keep the records in
    `out/results.json`. Returns the errors of runs that failed.
    """
    missing, out = study.missing(benchmark), Path(out)
    if not missing:
        return {}
    from tfcsr.experiments.compare import execute
    from tfcsr.experiments.machine import on_this_machine

    # Of its 200 runs only the figures are wanted: the networks would take gigabytes.
    specs = [spec.replace(device=device, data_dir=data_dir, keep_model=False) for spec in missing]
    specs = [on_this_machine(spec, threads=1) for spec in specs]
    origins, places = Origins(), RunFolders(out / "runs")
    # Data that cannot be read is refused here, once.
    specs = [spec.replace(out=str(places.place(spec, origins[spec]))) for spec in specs]

    # Which command, when, on what, how many runs it finished and how long it had taken by then.
    session: dict[str, Any] = {"command": command, "date": datetime.now(UTC).date().isoformat(), "runs": 0}
    started = time.monotonic()

    def tell(spec: RunSpec, news: Any) -> None:
        if isinstance(news, Result):
            if session["runs"] == 0:
                study.records.sessions.append(session)
            study.add(Record.of(news))
            session["runs"] += 1
            session.update({"seconds": round(time.monotonic() - started, 1), "machine": news.environment})
            # At once, and not at the end: a session may end in any way.
            study.records.write(out / "results.json")
        watcher(spec, news)

    outcome = execute(specs, workers, tell, stop, origins)
    return {spec.name(): str(e) for spec, e in zip(specs, outcome, strict=True) if isinstance(e, TfcsrError)}
