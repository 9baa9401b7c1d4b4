"""How well what the memory says can be believed: recall of each class beside its test accuracy."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from tfcsr.beyond.arms import OURS
from tfcsr.beyond.study import Beyond
from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import Estimate, optional_estimate, wilson

BINS = ((0, 20), (20, 40), (40, 60), (60, 80), (80, 100))


@dataclass(frozen=True)
class Pair:
    """A class after a task: what the memory says of it, and what the test data say."""

    task: int
    right: int
    asked: int
    accuracy: float

    @property
    def recall(self) -> float:
        return 100 * self.right / self.asked


@dataclass(frozen=True)
class Bin:
    """Classes of about the same test accuracy."""

    low: float
    high: float
    recall: float
    accuracy: float
    pairs: int


@dataclass(frozen=True)
class Honesty:
    """How well what the memory says can be believed: estimates over seeds, in points and percent."""

    source: str
    method: str
    n: int
    correlation: Estimate | None
    honest_correlation: Estimate | None
    """The correlation to be expected of an unbiased exam of this size: few questions are noise."""
    asked: float | None
    """How many questions there are about a class, on the average."""
    bias: Estimate | None
    bias_at_end: Estimate | None
    bias_after: list[Estimate | None]
    error: Estimate | None
    covered: int
    moments: int
    pairs: list[Pair]


# What is asked, and the arms in which it is.
SOURCES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "exam": ("the exam", {"er": "exam/er", OURS: f"exam/{OURS}"}),
    "probe": ("the paper's probe of replayed examples", {"er": "accuracy/er", OURS: f"accuracy/{OURS}"}),
}


def pairs_of(record: Record) -> list[Pair]:
    """Of each class that was asked for, after each task; what cannot be is left out, and what was asked otherwise."""
    found, first = [], len(record.accuracy_after_task) if record.all_outputs else 1
    rows = zip(record.recall_asked, record.recall_right, record.class_accuracy, strict=False)
    for task, (asked, right, accuracy) in enumerate(rows, start=1):
        for n, k, value in zip(asked, right, accuracy, strict=False):
            if task >= first and n > 0 and 0 <= k <= n and 0 <= value <= 100:
                found.append(Pair(task, k, n, value))
    return found


def correlation(pairs: Sequence[Pair]) -> float | None:
    """Pearson's, between recall and test accuracy; None where one of them does not vary."""
    if len(pairs) < 2:
        return None
    x, y = [pair.recall for pair in pairs], [pair.accuracy for pair in pairs]
    middle_x, middle_y = fmean(x), fmean(y)
    spread_x, spread_y = pvariance(x, middle_x), pvariance(y, middle_y)
    if spread_x <= 0 or spread_y <= 0:
        return None
    together = fmean((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return max(-1.0, min(1.0, together / math.sqrt(spread_x * spread_y)))


def honest_correlation(pairs: Sequence[Pair]) -> float | None:
    """What it would be if each answer were right with the class's test accuracy as its probability."""
    if len(pairs) < 2:
        return None
    chances = [pair.accuracy / 100 for pair in pairs]
    spread = pvariance(chances)
    noise = fmean(p * (1 - p) / pair.asked for p, pair in zip(chances, pairs, strict=True))
    return math.sqrt(spread / (spread + noise)) if spread > 0 else None


def bias(pairs: Sequence[Pair]) -> float | None:
    """Mean recall minus mean test accuracy of the classes asked for, in points."""
    return fmean(pair.recall - pair.accuracy for pair in pairs) if pairs else None


@dataclass(frozen=True)
class Moment:
    """After a task: what the memory says as a whole, and the test accuracy over all classes seen."""

    right: int
    asked: int
    accuracy: float

    @property
    def error(self) -> float:
        return abs(100 * self.right / self.asked - self.accuracy)

    @property
    def covered(self) -> bool:
        low, high = wilson(self.right, self.asked)
        return low <= self.accuracy <= high


def moments_of(record: Record) -> list[Moment]:
    pairs = pairs_of(record)
    found = []
    for task, accuracy in enumerate(record.accuracy_after_task, start=1):
        own = [pair for pair in pairs if pair.task == task]
        if own:
            found.append(Moment(sum(p.right for p in own), sum(p.asked for p in own), accuracy))
    return found


def honesty(study: Beyond, source: str, method: str) -> Honesty:
    records = [record for record in study.of(SOURCES[source][1][method]).values() if pairs_of(record)]
    runs = [pairs_of(record) for record in records]
    moments = [moments_of(record) for record in records]
    tasks = max((record.run_spec.tasks for record in records), default=0)

    def biases(task: int) -> list[float | None]:
        return [bias([pair for pair in pairs if pair.task == task]) for pairs in runs]

    after = [biases(task) for task in range(1, tasks + 1)]
    # A moment counts as much as another, however many classes there are by then.
    whole = [[value for value in run if value is not None] for run in zip(*after, strict=True)]
    everything = [pair for pairs in runs for pair in pairs]
    return Honesty(
        source=source,
        method=method,
        n=len(runs),
        correlation=optional_estimate(map(correlation, runs)),
        honest_correlation=optional_estimate(map(honest_correlation, runs)),
        asked=fmean(pair.asked for pair in everything) if everything else None,
        bias=optional_estimate(fmean(run) for run in whole),
        bias_at_end=optional_estimate(after[-1]) if after else None,
        bias_after=[optional_estimate(values) for values in after],
        error=optional_estimate(fmean(m.error for m in run) for run in moments),
        covered=sum(m.covered for run in moments for m in run),
        moments=sum(map(len, moments)),
        pairs=everything,
    )


def binned(pairs: Iterable[Pair], bins: Sequence[tuple[float, float]] = BINS) -> list[Bin]:
    """Bins of test accuracy that have any class in them; an upper end belongs to the next, but for the last."""
    pairs, found = list(pairs), []
    for low, high in bins:
        own = [p for p in pairs if low <= p.accuracy < high or (high == bins[-1][1] == p.accuracy)]
        if own:
            found.append(Bin(low, high, fmean(p.recall for p in own), fmean(p.accuracy for p in own), len(own)))
    return found
