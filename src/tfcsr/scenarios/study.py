"""Which runs the comparison with outside code needs, which of them there are, and what they say."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfcsr.errors import SpecError
from tfcsr.experiments.record import Record, Records
from tfcsr.experiments.statistics import (
    Estimate,
    fit_probability,
    optional_estimate,
    paired_difference,
    prediction_interval,
)
from tfcsr.experiments.study import Study, arms_of, section_of, seed_numbers
from tfcsr.scenarios.arms import ARMS, BASE, NAMES, SECTIONS
from tfcsr.spec import RunSpec

STUDY = "scenarios"
TARGETS = (STUDY, *(f"{STUDY}/{section}" for section in SECTIONS))


class Scenarios(Study):
    """The arms asked for, and the records there are."""

    def __init__(self, arms: Sequence[str], seeds: Sequence[int], records: Records) -> None:
        self.arms = list(arms)
        self.sections = [section for section in SECTIONS if section in map(section_of, arms)]
        super().__init__(seeds, records)
        self._specs = {name: {seed: arm.spec(seed) for seed in seeds} for name, arm in ARMS.items()}

    def named(self) -> Iterator[tuple[str, RunSpec]]:
        """A seed's after the other's, so that what is there can be paired."""
        yield from ((name, self._specs[name][seed]) for seed in self.seeds for name in self.arms)

    def kept(self, record: Record) -> Record:
        return dataclasses.replace(record.without_classes(), task_accuracy=record.task_accuracy)

    def row(self, name: str) -> "Row":
        return Row(name, self._accuracies(name), self._accuracies(f"{section_of(name)}/{BASE}"))

    def _accuracies(self, name: str) -> dict[int, float]:
        known = {seed: self.known(spec) for seed, spec in self._specs[name].items()}
        return {seed: record.mean_accuracy for seed, record in known.items() if record is not None}

    def rows(self, section: str) -> list["Row"]:
        return [self.row(f"{section}/{method}") for method in NAMES if f"{section}/{method}" in ARMS]

    def looks(self) -> list["Look"]:
        """Every outside value that there are runs to hold against."""
        rows = [row for section in self.sections for row in self.rows(section)]
        return [look for row in rows for look in row.looks if look.probability is not None]


@dataclass(frozen=True)
class Look:
    """One outside value beside our runs."""

    name: str
    outside: float
    interval: tuple[float, float] | None
    probability: float | None
    """That one more run of ours lies at least as far from the mean of ours."""

    @property
    def inside(self) -> bool:
        # Published with one decimal; runs that all came to the same have an interval of one point.
        return self.interval is not None and self.interval[0] - 0.05 <= self.outside <= self.interval[1] + 0.05


@dataclass(frozen=True)
class Row:
    """What a method came to in a scenario, seed by seed, and what plain training did."""

    name: str
    values: dict[int, float]
    base: dict[int, float]

    @property
    def method(self) -> str:
        return self.name.partition("/")[2]

    @property
    def accuracy(self) -> Estimate | None:
        return optional_estimate(self.values.values())

    @property
    def difference(self) -> Estimate | None:
        """To plain training, in pairs."""
        return None if self.method == BASE else paired_difference(self.values, self.base)

    @property
    def interval(self) -> tuple[float, float] | None:
        return prediction_interval(list(self.values.values()))

    @property
    def looks(self) -> list[Look]:
        values = list(self.values.values())
        return [Look(self.name, v, self.interval, fit_probability(v, values)) for v in ARMS[self.name].outside]


def open_study(
    targets: Sequence[str],
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path,
    data: str | None = None,
    also: Iterable[str | Path] = (),
) -> Scenarios:
    """What there is, without running anything: see `Study.read`."""
    if data is not None:
        raise SpecError(f"data {data}: the scenarios are compared on the data that the outside code was run on")
    return Scenarios(arms_of(targets, STUDY, ARMS), seed_numbers(seeds), Records()).read(out, also)
