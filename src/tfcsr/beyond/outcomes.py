"""What the runs of an arm came to, beside those of another. Pure: it reads records and draws nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from tfcsr.beyond.arms import OURS, SMALL
from tfcsr.beyond.study import Beyond, accuracies
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import Estimate, optional_estimate, paired_difference


def paired(study: Beyond, arm: str, against: str) -> Estimate | None:
    """By how many points one arm ends above another, over the seeds that both have."""
    return paired_difference(accuracies(study.of(arm)), accuracies(study.of(against)))


@dataclass(frozen=True)
class Outcome:
    """What an arm came to, beside what it is held against; both without intervals from too few seeds."""

    name: str
    label: str
    n: int
    accuracy: Estimate | None
    difference: Estimate | None
    replay_batches: float | None
    replayed: float | None
    memory_checks: float | None
    steps: float | None
    collapsed: int
    newest_alone: int
    """How many runs ended no higher than a network would that knows the newest task and nothing else."""


def outcome(study: Beyond, arm: str, against: str | None = None, label: str | None = None) -> Outcome:
    row = study.row(arm, against)
    return Outcome(
        arm,
        label or row.label,
        row.n,
        row.accuracy,
        None if arm == against else row.difference,
        row.mean("replay_batches"),
        row.mean("replayed"),
        row.mean("memory_checks"),
        row.mean("optimizer_steps"),
        row.collapsed,
        row.newest_alone,
    )


def curve(runs: Iterable[Record]) -> list[Estimate]:
    """Accuracy after each task; before the last, of runs that were asked as they are now, if there are any."""
    known = list(runs)
    points = []
    for place in range(min((len(record.accuracy_after_task) for record in known), default=0)):
        last = [len(record.accuracy_after_task) == place + 1 for record in known]
        told = [record for record, end in zip(known, last, strict=True) if end or not record.all_outputs] or known
        points.append(optional_estimate(record.accuracy_after_task[place] for record in told))
    return [point for point in points if point is not None]


def curves(runs: Mapping[int, Record]) -> dict[int, list[float]]:
    """By seed, the accuracies after each task, of runs that were asked as they are now."""
    return {seed: record.accuracy_after_task for seed, record in runs.items() if not record.all_outputs}


def along(runs: Mapping[int, Record]) -> dict[int, float]:
    """By seed, the mean of these."""
    return {seed: fmean(after) for seed, after in curves(runs).items()}


@dataclass(frozen=True)
class Course:
    """Ours beside another over the whole sequence: the paired difference of the means over tasks, and the tasks after
    which it is ahead or behind.
    """

    mean: Estimate
    ahead: list[int]
    behind: list[int]


def course(study: Beyond, arm: str, against: str) -> Course | None:
    ours, other = study.of(arm), study.of(against)
    mean = paired_difference(along(ours), along(other))
    if mean is None:
        return None
    found: dict[str, list[int]] = {"better": [], "worse": [], "open": []}
    both = curves(ours), curves(other)
    for place in range(min(len(after) for known in both for after in known.values())):
        one, two = ({seed: after[place] for seed, after in known.items()} for known in both)
        found[change_verdict(paired_difference(one, two))].append(place + 1)
    return Course(mean, found["better"], found["worse"])


def asked(question: str, where: str | None = None) -> str:
    """What the names of a question's arms begin with: at the paper's budget, on a small benchmark, or elsewhere."""
    if where is None:
        return question
    return f"{'small' if where in SMALL else 'elsewhere'}/{where}/{question}"


def whole(small: str | None = None) -> str:
    """The arm of ours as it is."""
    return f"accuracy/{OURS}" if small is None else f"small/{small}/whole"


def method_of(arm: str) -> str:
    return arm.rpartition("/")[2]
