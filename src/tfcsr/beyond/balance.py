"""What a loss is worth in which each class weighs as much as its share of what is trained on."""

from dataclasses import dataclass

from tfcsr.beyond.arms import BALANCED, LESS_REPLAY, balanced
from tfcsr.beyond.outcomes import Outcome, course, outcome, paired
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import loss_verdict
from tfcsr.experiments.statistics import Estimate


@dataclass(frozen=True)
class Weighed:
    """Ours as it is in one setting, and with that loss, paired."""

    arm: str
    when: str
    own: Outcome
    balanced: Outcome
    along: Estimate | None
    """The difference in the mean over the tasks."""


def balance(study: Beyond) -> list[Weighed]:
    found = []
    for arm, when in BALANCED.items():
        along = course(study, balanced(arm), arm)
        row = outcome(study, balanced(arm), arm)
        found.append(Weighed(arm, when, outcome(study, arm), row, None if along is None else along.mean))
    return found


@dataclass(frozen=True)
class Less:
    """What less replay costs, with the loss as it is and with the balanced one."""

    arm: str
    own: Estimate | None
    balanced: Estimate | None
    verdict: str
    """Of the balanced one."""


def less_replay(study: Beyond) -> list[Less]:
    found = []
    for less, more in LESS_REPLAY.items():
        difference = paired(study, balanced(less), balanced(more))
        found.append(Less(less, paired(study, less, more), difference, loss_verdict(difference)))
    return found
