"""The paper again: which runs its targets need, which of them there are, and what they say about what was published."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError
from tfcsr.experiments.record import Record, Records
from tfcsr.experiments.statistics import Estimate, estimate, optional_estimate, prediction_interval
from tfcsr.experiments.study import Study, seed_numbers
from tfcsr.paper.dense import dense, seen_by
from tfcsr.paper.published import ARMS, GRIDS, GROUPS, NAMES, TARGETS, Grid, Published, Row, Target, audit_arms
from tfcsr.spec import RunSpec

# As its titles name them.
BENCHMARK_NAMES = ("Split MNIST", "Split CIFAR-100")


def chosen(names: Iterable[str]) -> list[str]:
    """The targets meant by these names, groups opened, each once, in the paper's order; the audit last."""
    wanted: set[str] = set()
    for name in names:
        if name not in NAMES:
            raise SpecError(f"unknown target {name!r}: use one of {', '.join(NAMES)}")
        wanted |= set(GROUPS.get(name, (name,)))
    return [name for name in (*TARGETS, "audit") if name in wanted]


def method_of(arm: str) -> str:
    """The method whose row it is, which may be read off the run of another."""
    method: str = ARMS[arm].fields["method"]
    return method


def is_read_off(arm: str) -> bool:
    """Whether its row is that of a run which holds others, too."""
    spec = ARMS[arm].spec(0)
    return not ARMS[arm].alone and dense(spec) != spec


def augmented(arm: str) -> bool:
    return bool(ARMS[arm].fields["augment"] != "none")


def arms_of(targets: Iterable[str]) -> list[str]:
    names = [arm for name in targets for arm in (audit_arms() if name == "audit" else TARGETS[name].arms())]
    return list(dict.fromkeys(names))


class Reproduction(Study):
    """The paper's targets, the data they run on, and the records there are."""

    def __init__(self, targets: Sequence[str], seeds: Sequence[int], data: str | None, records: Records) -> None:
        super().__init__(seeds, records)
        self.targets = chosen(targets)
        self.data = data
        self._specs: dict[str, dict[int, tuple[RunSpec, RunSpec]]] = {}  # asked for again and again

    def specs(self, arm: str) -> dict[int, tuple[RunSpec, RunSpec]]:
        """By seed, the arm's run and the one that holds it."""
        if arm not in self._specs:
            entry = ARMS[arm]
            specs = {seed: entry.spec(seed, self.data) for seed in self.seeds[: entry.most_seeds]}
            self._specs[arm] = {seed: (spec, spec if entry.alone else dense(spec)) for seed, spec in specs.items()}
        return self._specs[arm]

    def named(self) -> Iterator[tuple[str, RunSpec]]:
        """Tables and figures first, then what only the audit asks for; a seed's after the other's, so that what is
        there can be paired.
        """
        for targets in ([name for name in self.targets if name != "audit"], self.targets):
            arms = {name: self.specs(name) for name in arms_of(targets)}
            yield from ((name, arm[seed][1]) for seed in self.seeds for name, arm in arms.items() if seed in arm)

    def of(self, arm: str) -> dict[int, Record]:
        """The records of an arm by seed, as far as there are any."""
        found = {}
        for seed, (spec, holder) in self.specs(arm).items():
            record = self.known(holder)
            if record is not None:
                found[seed] = record if holder is spec else seen_by(record, spec)
        return found

    def published(self, row: Row) -> Published | None:
        """Only the paper's own data can be held against its numbers."""
        return row.value if self.data is None else None

    @property
    def whole(self) -> bool:
        """Whether every table and figure was asked for."""
        return set(TARGETS) <= set(self.targets)

    def title(self, target: Target) -> str:
        """What it is called, by the data that was really run."""
        if self.data is None:
            return target.title
        for name in BENCHMARK_NAMES:
            if name in target.title:
                return target.title.replace(name, self.data)
        return f"{target.title}, on {self.data}"

    def on_its_data(self, text: str) -> str:
        """Text about the paper's benchmarks as it holds for the data that was run, with their settings."""
        if self.data is not None:
            for name in BENCHMARK_NAMES:
                text = text.replace(name, f"{self.data} (settings of {name})")
        return text

    def rows(self, target: Target) -> tuple[Row, ...]:
        """What the target shows, each with the buffer that it really had."""
        return tuple(map(self._as_run, target.rows))

    def _as_run(self, row: Row) -> Row:
        if self.data is None or row.x is None:
            return row
        capacity = next(iter(self.specs(row.arm).values()))[0].buffer_capacity
        return replace(row, label=f"{row.series}, capacity {capacity}", x=float(capacity))

    def lines(self, target: Target) -> list["Line"]:
        return [
            Line(row.label, row.arm, quantity, None if known is None else known.value(quantity), self.of(row.arm))
            for row in (*self.rows(target), *target.more)
            for known in [self.published(row)]
            for quantity in target.quantities
            # How long a run was is of interest where the method decides it.
            if quantity != "epochs" or (row.value is not None and row.value.epochs_per_task is not None)
        ]

    def curves(self, target: Target) -> list["Curve"]:
        rows = [(row, self.of(row.arm)) for row in self.rows(target)]
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
) -> Reproduction:
    """What there is, without running anything: see `Study.read`."""
    if data is not None and data not in BENCHMARKS.names():
        raise SpecError(f"unknown data {data!r}: use one of {', '.join(BENCHMARKS.names())}")
    return Reproduction(targets, seed_numbers(seeds), data, Records()).read(out, also)
