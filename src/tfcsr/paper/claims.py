"""How much the reproduction shows: which comparisons are different ones, and what they could have noticed.

The paper tells many numbers several times, in a table and as the end of a curve; each counts once here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median, stdev

from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import fit_probability, holm, prediction_interval
from tfcsr.paper.published import TARGETS
from tfcsr.paper.reproduction import Reproduction, verdict

# Of the normal distribution: 80 % of it lie below. With that probability the deviation that is reported is noticed.
BELOW_POWER = 0.8416212335729143


@dataclass(frozen=True)
class Comparison:
    """One published number and our runs of it."""

    label: str
    quantity: str
    published: float
    values: tuple[float, ...]

    @property
    def verdict(self) -> str:
        return verdict(self.published, self.values)

    @property
    def varies(self) -> bool:
        """A count that is the same in every run says nothing about chance."""
        return len(set(self.values)) > 1

    @property
    def probability(self) -> float | None:
        """Of a run of ours to lie at least as far from the mean."""
        return fit_probability(self.published, self.values)

    @property
    def noticeable(self) -> float | None:
        """How far from our mean the paper's true mean would have to lie to be called inconsistent with probability 0.8,
        if its runs scatter as ours do.
        """
        interval = prediction_interval(self.values)
        if interval is None or not self.varies:
            return None
        return (interval[1] - interval[0]) / 2 + BELOW_POWER * stdev(self.values)


@dataclass(frozen=True)
class Claims:
    """All different comparisons there are: final values and counts, and the points of the curves."""

    values: list[Comparison]
    points: list[Comparison]

    @property
    def judged(self) -> list[Comparison]:
        """Final values that vary from run to run and have an interval."""
        return [c for c in self.values if c.varies and c.probability is not None]

    @property
    def judged_points(self) -> list[Comparison]:
        return [c for c in self.points if c.varies and c.probability is not None]

    def smallest_noticeable(self, quantity: str = "final_accuracy") -> tuple[float, float, float] | None:
        """Least, median and largest deviation, in points, that would have been noticed."""
        found = [c.noticeable for c in self.judged if c.quantity == quantity]
        known = sorted(value for value in found if value is not None)
        return (known[0], median(known), known[-1]) if known else None

    def surviving(self) -> list[Comparison]:
        """Those that differ even when the number of looks is counted: Holm's correction at 5 %, over final values and
        points together.
        """
        return holm([*self.judged, *self.judged_points])


def claims(study: Reproduction) -> Claims:
    values: dict[object, Comparison] = {}
    points: dict[object, Comparison] = {}
    for target in TARGETS.values():
        for line in study.lines(target):
            if line.published is not None and line.runs:
                found = Comparison(line.label, line.quantity, line.published, tuple(line.values))
                values.setdefault((line.quantity, line.published, _identity(line.runs.values())), found)
        if target.kind == "curves":
            for row in target.rows:
                known, runs = study.published(row), study.of(row.arm)
                if known is None or not runs:
                    continue
                curves = [record.accuracy_after_task for record in runs.values()]
                # The last point is a final value.
                for task, published in enumerate(known.curve[:-1]):
                    ours = tuple(curve[task] for curve in curves)
                    found = Comparison(f"{row.label}, after task {task + 1}", "accuracy", published, ours)
                    points.setdefault((task, published, _identity(runs.values())), found)
    return Claims(list(values.values()), list(points.values()))


def _identity(runs: Iterable[Record]) -> tuple[str, ...]:
    """The same weights are the same training, whatever it is called."""
    return tuple(sorted(record.weights_sha256 for record in runs))
