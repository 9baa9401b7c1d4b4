"""Which runs our own claims need, which of them there are, and what they say."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tfcsr.beyond.arms import ARMS, SECTIONS, Arm, partner, spread_epochs
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.experiments.record import Record, Records, question
from tfcsr.experiments.statistics import Estimate, optional_estimate, paired_difference
from tfcsr.experiments.study import Study, arms_of, section_of, seed_numbers
from tfcsr.spec import RunSpec

STUDY = "beyond"
# On other data these are as they are there.
OF_BENCHMARK = {"augment": "none", "tasks": None, "model": None, "buffer_capacity": None, "batch_size": 64}
NAMES = (STUDY, *(f"{STUDY}/{section}" for section in SECTIONS))


class Beyond(Study):
    """The arms asked for, the data they run on, and the records there are."""

    def __init__(self, arms: Sequence[str], seeds: Sequence[int], data: str | None, records: Records) -> None:
        self.seeds, self.data, self.arms = list(seeds), data, list(arms)
        self.sections = [section for section in SECTIONS if section in map(section_of, arms)]
        self._specs: dict[tuple[str, int, str], RunSpec] = {}
        super().__init__(seeds, records)

    def seeds_of(self, arm: Arm) -> list[int]:
        """An arm of fewer seeds has the first of them; one of more, some for each; one with seeds of its own those."""
        asked = self.seeds[: arm.seeds]
        return [arm.first_seed + seed * arm.times + more for seed in asked for more in range(arm.times)]

    def specs(self, name: str) -> dict[int, RunSpec]:
        """By seed; without those that wait for what another arm does."""
        arm, found = ARMS[name], {}
        for seed in self.seeds_of(arm):
            more = self._of_data()
            if arm.matches is not None:
                other = self.of(arm.matches).get(partner(seed) if arm.yoked else seed)
                if other is None:
                    continue
                spread = spread_epochs(mixed_epochs(other), other.run_spec.epochs)
                more["replay_epochs"] = due_epochs(other) if arm.yoked else f"none/{spread}" if arm.later else spread
            known = (name, seed, str(more))
            if known not in self._specs:
                self._specs[known] = arm.spec(seed, **more)
            found[seed] = self._specs[known]
        return found

    def named(self) -> Iterator[tuple[str, RunSpec]]:
        """Section after section, a seed's after the other's, so that what is there can be paired."""
        for section in self.sections:
            arms = {name: self.specs(name) for name in self.arms if section_of(name) == section}
            order = sorted({seed for specs in arms.values() for seed in specs})
            yield from ((name, specs[seed]) for seed in order for name, specs in arms.items() if seed in specs)

    def kept(self, record: Record) -> Record:
        return record if self._per_class(record) else super().kept(record)

    def lacks(self, record: Record) -> bool:
        return self._per_class(record) and not record.class_accuracy

    def _per_class(self, record: Record) -> bool:
        """Whatever its seed is, and whether it is asked for today."""
        return question(record.run_spec.replace(seed=0)) in self._of_each_class

    @functools.cached_property
    def _of_each_class(self) -> set[object]:
        more = self._of_data()
        return {question(arm.spec(0, **more)) for arm in ARMS.values() if arm.per_class}

    def _of_data(self) -> dict[str, Any]:
        return {} if self.data is None else {"benchmark": self.data, **OF_BENCHMARK}

    def of(self, name: str) -> dict[int, Record]:
        """The records of an arm by seed, as far as there are any."""
        known = {seed: self.known(spec) for seed, spec in self.specs(name).items()}
        return {seed: record for seed, record in known.items() if record is not None}

    def row(self, name: str, against: str | None = None) -> "Row":
        other = {} if against is None else accuracies(self.of(against))
        return Row(name, ARMS[name].label, self.of(name), other)


def sections_with_runs(study: Beyond) -> set[str]:
    """Those that any run was made for. One that several need is the first one's; of those asked for, if any is."""
    found: set[str] = set()
    taken: set[object] = set()
    for section in sorted(SECTIONS, key=lambda name: name not in study.sections):
        needed = [spec for name in ARMS if section_of(name) == section for spec in study.specs(name).values()]
        own = {question(spec): spec for spec in needed if question(spec) not in taken}
        if any(study.known(spec) is not None for spec in own.values()):
            found.add(section)
        taken |= own.keys()
    return found


def accuracies(runs: dict[int, Record]) -> dict[int, float]:
    return {seed: record.final_accuracy for seed, record in runs.items()}


def epoch_of_replay(record: Record) -> float:
    """How many images a run like this replays, in all, for one epoch of each task: half a batch a step, or all that the
    memory holds.
    """
    spec = record.run_spec
    steps = record.optimizer_steps / (spec.epochs * spec.tasks)
    later = max(1, spec.tasks - 1)  # in the first task there is nothing to replay
    held: int = max(1, round(spec.buffer_capacity * (1 - spec.get("exam_share", 0.0))))
    half: int = spec.batch_size // 2
    return steps * min(half, held) * later


def mixed_epochs(record: Record) -> int:
    """In how many epochs of a task, on the average, as many images would have been replayed as this run did."""
    return min(record.run_spec.epochs, round((record.replayed or 0) / epoch_of_replay(record)))


def due_epochs(record: Record) -> str:
    """The epochs of each task in which this run replayed, where its schedule decided: after each it was asked."""
    tasks = range(1, record.run_spec.tasks + 1)
    asked = {task: [str(int(epoch)) for at, epoch, _ in record.probes if at == task] for task in tasks}
    return "/".join(",".join(asked[task]) or "none" for task in tasks)


@dataclass(frozen=True)
class Row:
    """What an arm came to, and by how much it differs from another, seed by seed."""

    name: str
    label: str
    runs: dict[int, Record]
    other: dict[int, float]

    @property
    def n(self) -> int:
        return len(self.runs)

    @property
    def accuracy(self) -> Estimate | None:
        return optional_estimate(accuracies(self.runs).values())

    @property
    def collapsed(self) -> int:
        return sum(record.collapsed is not None for record in self.runs.values())

    @property
    def newest_alone(self) -> int:
        """How many ended no higher than a network would that knows the newest task and nothing else."""
        return sum(record.final_accuracy <= 100 / record.run_spec.tasks for record in self.runs.values())

    @property
    def held_out(self) -> float | None:
        known = [record.held_out_accuracy for record in self.runs.values() if record.held_out_accuracy is not None]
        return fmean(known) if known else None

    @property
    def difference(self) -> Estimate | None:
        return paired_difference(accuracies(self.runs), self.other)

    def mean(self, quantity: str) -> float | None:
        values = [getattr(record, quantity) for record in self.runs.values()]
        return fmean(values) if values and None not in values else None


def open_study(
    targets: Sequence[str],
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path,
    data: str | None = None,
    also: Iterable[str | Path] = (),
) -> Beyond:
    """What there is, without running anything: see `Study.read`."""
    if data is not None:
        BENCHMARKS.require(data)
    return Beyond(arms_of(targets, STUDY, ARMS), seed_numbers(seeds), data, Records()).read(out, also)
