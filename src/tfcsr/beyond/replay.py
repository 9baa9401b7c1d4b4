"""How much replay is needed, when, and who decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfcsr.beyond.arms import ADAPTIVE, ARMS, LISTED, LONG_WITH_CNN, OURS, SQUARED, WHEN, WHEN_LONG
from tfcsr.beyond.outcomes import Outcome, along, asked, outcome, paired
from tfcsr.beyond.study import Beyond, Row, epoch_of_replay
from tfcsr.beyond.verdicts import QUARTER, gain_verdict, loss_verdict
from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import Estimate, optional_estimate

# Points of the frontier that explain others and are no proposals.
CONTROLS = ("random", "same-new", "sixteen", "eight")
EVEN = "even"


@dataclass(frozen=True)
class Point:
    """Some way to place replay: what it costs, as a share of what replay in every epoch does, and what it gives."""

    method: str
    when: str
    label: str
    n: int
    batches: float | None
    images: float | None
    replayed: float | None
    accuracy: Estimate | None
    difference: Estimate | None
    along: Estimate | None
    """The mean over the accuracies after each task."""
    verdict: str
    collapsed: int

    @property
    def control(self) -> bool:
        return self.when in CONTROLS


def frontier(study: Beyond, method: str, where: str | None = None) -> list[Point]:
    """Every way that is tried there, with its paired difference to replay in every epoch."""
    arms = {when: arm for when in WHEN if (arm := f"{asked('frontier', where)}/{method}/{when}") in ARMS}
    return _points(study, method, arms, WHEN)


def long_tasks(study: Beyond) -> list[Point]:
    """The same for ours with the small CNN, in tasks as long as the field's."""
    return _points(study, OURS, {when: f"{LONG_WITH_CNN}/{when}" for when in WHEN_LONG}, WHEN_LONG)


def _points(
    study: Beyond, method: str, arms: Mapping[str, str], ways: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> list[Point]:
    every = study.row(arms["every"])

    def share(row: Row, quantity: str) -> float | None:
        part, whole = row.mean(quantity), every.mean(quantity)
        return None if part is None or not whole else part / whole

    points = []
    for when, arm in arms.items():
        row = study.row(arm)
        difference = None if when == "every" else paired(study, row.name, every.name)
        points.append(
            Point(
                method,
                when,
                ways[when][0],
                row.n,
                share(row, "replay_batches"),
                share(row, "replayed"),
                row.mean("replayed"),
                row.accuracy,
                difference,
                optional_estimate(along(row.runs).values()),
                "" if when == "every" else loss_verdict(difference),
                row.collapsed,
            )
        )
    return points


@dataclass(frozen=True)
class Target:
    """A quarter of the replay batches or fewer, at no loss."""

    verdict: str
    at_no_loss: list[Point]
    tried: list[Point]

    @property
    def nearest(self) -> list[Point]:
        """What lost least of all that was tried, as far as it can be paired."""
        known = [(point.difference.mean, point) for point in self.tried if point.difference is not None]
        return [max(known, key=lambda found: found[0])[1]] if known else []


def quarter(points: Sequence[Point]) -> Target:
    tried = [p for p in points if p.n and not p.control and p.batches is not None and p.batches <= QUARTER + 1e-9]
    kept = [point for point in tried if point.verdict == "no loss"]
    verdict = "met" if kept else "open"
    if tried and not kept and all(point.verdict == "loss" for point in tried):
        verdict = "not met"
    return Target(verdict, kept, tried)


@dataclass(frozen=True)
class Effects:
    """Spaced replay differs from replay in every epoch in two things; one control tells them apart. All paired."""

    less_replay: Estimate | None
    more_new: Estimate | None
    together: Estimate | None
    random: Estimate | None
    fourth: Estimate | None


def effects(study: Beyond, method: str, where: str | None = None) -> Effects:
    arms = f"{asked('frontier', where)}/{method}"

    def difference(when: str, other: str) -> Estimate | None:
        both = f"{arms}/{when}", f"{arms}/{other}"
        return paired(study, *both) if ARMS.keys() >= set(both) else None

    return Effects(
        less_replay=difference("same-new", "every"),
        more_new=difference("spaced", "same-new"),
        together=difference("spaced", "every"),
        random=difference("random", "spaced"),
        fourth=difference("fourth", "spaced"),
    )


@dataclass(frozen=True)
class Adapting:
    """A schedule that the exam drives, and a fixed one that replays as much. Then one that replays when another run's
    exam asked for it: on the whole as much and as unevenly, and still no answer to what this run has forgotten.
    """

    label: str
    adaptive: Outcome
    fixed: Outcome
    matched: bool
    """Whether, seed by seed, the two replay as many images, as far as whole epochs can."""
    verdict: str
    yoked: Outcome | None
    own_exam: Estimate | None
    """By how much the driven one ends above the yoked one, paired."""


def adapting(study: Beyond, small: str | None = None) -> list[Adapting]:
    found = []
    for name, (label, _) in ADAPTIVE.items():
        arm = f"{asked('adapting', small)}/{name}"
        twin, control = f"{arm}/fixed", f"{arm}/yoked"
        adaptive, fixed, twins = outcome(study, arm, twin), outcome(study, twin), study.of(twin)
        matched = all(_replay_alike(run, twins[seed]) for seed, run in study.of(arm).items() if seed in twins)
        # Of two that replay differently, more replay may be what pays.
        verdict = gain_verdict(adaptive.difference) if matched else "open"
        yoked = outcome(study, control) if control in ARMS else None
        own_exam = None if yoked is None else paired(study, arm, control)
        found.append(Adapting(label, adaptive, fixed, matched, verdict, yoked, own_exam))
    return found


def timing(study: Beyond, small: str) -> list[Outcome]:
    """Ways to place the same replay, beside evenly spread epochs."""
    arms = {when: f"{asked('timing', small)}/{when}" for when in LISTED}
    return [outcome(study, arm, arms[EVEN]) for arm in arms.values()]


def squared(study: Beyond, small: str) -> list[Outcome]:
    """The paper's spaced replay, then ER with the same loss and other epochs, each against it."""
    arms = [f"{asked('squared', small)}/{name}" for name in SQUARED]
    return [outcome(study, arm, arms[0]) for arm in arms]


def _replay_alike(one: Record, other: Record) -> bool:
    if one.replayed is None or other.replayed is None:
        return False
    return abs(one.replayed - other.replayed) <= 0.55 * epoch_of_replay(one)  # steps vary a little from task to task
