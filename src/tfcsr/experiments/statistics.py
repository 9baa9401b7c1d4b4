"""Means with their intervals. Nothing is believed from one seed, nor from two."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol, TypeVar

from tfcsr.experiments.student import t_probability, t_quantile

# The interval of two values is 13 times as wide as their distance: it says nothing, and leaves what is possible.
FEWEST = 3


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its 95 % confidence interval (Student's t); with fewer than three there is none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


def estimate(values: Sequence[float]) -> Estimate:
    n, mean = len(values), fmean(values)
    if n < FEWEST:
        return Estimate(mean, None, None, n)
    half = t_quantile(n - 1, 0.975) * stdev(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def optional_estimate(values: Iterable[float | None]) -> Estimate | None:
    """Of the values that are known; of none, none."""
    known = [value for value in values if value is not None]
    return estimate(known) if known else None


def prediction_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Where one more run would lie with 95 % probability, if runs are normally distributed; from two runs on."""
    if len(values) < 2:
        return None
    n, mean = len(values), fmean(values)
    half = t_quantile(n - 1, 0.975) * stdev(values) * math.sqrt(1 + 1 / n)
    return mean - half, mean + half


def fit_probability(value: float, values: Sequence[float]) -> float | None:
    """How probable it is that one more run lies at least as far from the mean as this value (two-sided)."""
    if len(values) < 2:
        return None
    n, distance = len(values), abs(value - fmean(values))
    scale = stdev(values) * math.sqrt(1 + 1 / n)
    if scale == 0:
        return 1.0 if distance == 0 else 0.0
    return 2 * t_probability(n - 1, -distance / scale)


def paired_difference(values: dict[int, float], baseline: dict[int, float]) -> Estimate | None:
    """The mean of value - baseline over the seeds that both have."""
    shared = [values[seed] - baseline[seed] for seed in values if seed in baseline]
    return estimate(shared) if shared else None


class Judged(Protocol):
    """A comparison, with the probability of a difference at least as large by chance."""

    @property
    def probability(self) -> float | None: ...


One = TypeVar("One", bound=Judged)


def holm(comparisons: Sequence[One], level: float = 0.05) -> list[One]:
    """Those whose probability lies below the level divided by how many are left to be judged, smallest first."""
    ordered = sorted(comparisons, key=lambda c: 1.0 if c.probability is None else c.probability)
    found = []
    for place, comparison in enumerate(ordered):
        probability = comparison.probability
        if probability is None or probability > level / (len(ordered) - place):
            break
        found.append(comparison)
    return found
