"""Means and shares with their intervals. Nothing is believed from one seed, nor from two."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol, TypeVar

from tfcsr.experiments.student import t_probability, t_quantile

# The interval of two values is 13 times as wide as their distance: it says nothing, and leaves what is possible.
FEWEST = 3
Z95 = 1.959963984540054
# Points of recall or accuracy below its best, from which on a class is said to be forgotten.
FORGOTTEN = 5.0


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


def wilson(right: int, asked: int) -> tuple[float, float]:
    """Where a share lies with 95 % confidence, in percent, when so many of so many answers were right."""
    share, square = right / asked, Z95 * Z95
    middle = (share + square / (2 * asked)) / (1 + square / asked)
    half = Z95 * math.sqrt(share * (1 - share) / asked + square / (4 * asked * asked)) / (1 + square / asked)
    # Without rounding: who knows nothing may have an accuracy of 0, who knows all one of 100.
    return 0.0 if right == 0 else 100 * (middle - half), 100.0 if right == asked else 100 * (middle + half)


def is_forgotten(now: float, best: float, asked: int | None = None) -> bool:
    """Whether a class, in percent, is too far below its best. Where both rest on few questions, so many, and are not
    known by heart: only if the 95 % interval of the difference (Newcombe 1998, from Wilson's) leaves 0 out.
    """
    if round(best - now, 1) < FORGOTTEN:
        return False
    if not asked:
        return True
    low, high = (wilson(round(share * asked / 100), asked) for share in (best, now))
    return best - now > math.hypot(best - low[0], high[1] - now)


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
