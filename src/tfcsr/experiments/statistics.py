"""Means with their intervals. Nothing is believed from one seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds with its 95 % confidence interval (Student's t); with one seed there is none."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


def estimate(values: Sequence[float]) -> Estimate:
    n, mean = len(values), fmean(values)
    if n < 2:
        return Estimate(mean, None, None, n)
    from scipy.special import stdtrit  # scipy.stats would take a second to import

    half = float(stdtrit(n - 1, 0.975)) * stdev(values) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(values: dict[int, float], baseline: dict[int, float]) -> Estimate | None:
    """The mean of value - baseline over the seeds that both have."""
    shared = [values[seed] - baseline[seed] for seed in values if seed in baseline]
    return estimate(shared) if shared else None
