"""SuperMemo-2 (Wozniak 1990): each item has an ease, which its grades move and by which its gap grows."""

from dataclasses import dataclass
from typing import ClassVar

from tfcsr.errors import SpecError
from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.recall.schedule.base import INITIAL_GAP, LONGEST_GAP, RETENTION_TARGET, RetentionSchedule, ScheduleState

FIRST_EASE, LEAST_EASE = 2.5, 1.3
BEST, PASS = 5.0, 3.0

SECOND_GAP = Option(
    "second_gap", float, 3.0, "epochs between the first probe that passes and the next", low=1, high=LONGEST_GAP
)


@dataclass(frozen=True, slots=True)
class Sm2State(ScheduleState):
    ease: float = FIRST_EASE
    passes: int = 0
    """In a row, since the last failure."""

    def __post_init__(self) -> None:
        ScheduleState.__post_init__(self)
        if not LEAST_EASE <= self.ease <= LONGEST_GAP:
            raise SpecError(f"ease {self.ease} is outside {LEAST_EASE}..{LONGEST_GAP:.0f}")
        if self.passes < 0:
            raise SpecError(f"passes {self.passes} is below 0")


@SCHEDULES.add("sm2")
@dataclass(frozen=True, slots=True)
class Sm2Schedule(RetentionSchedule):
    """The gaps are `initial_gap`, `second_gap`, and then each the one before times the ease, rounded.

    The grade q is read off the retention, and need not be whole: 0 at 0 %, 3 at `retention_target`, 5 at 100 %, with
    straight lines between. A pass, q of 3 or more, first moves the ease by 0.1 - (5 - q)(0.08 + (5 - q) 0.02), down to
    1.3 at the least. A failure starts the gaps over and leaves the ease as it is: so says the text of 1990; programs
    often lower it. What was graded below 4 is not asked again on the same day, as it is there: an epoch has one probe.
    """

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, RETENTION_TARGET, SECOND_GAP)
    states: ClassVar[type[ScheduleState]] = Sm2State

    second_gap: float = 3.0

    def grade(self, retention: float) -> float:
        """0..5 for 0..100 percent."""
        target = self.retention_target
        if retention < target:
            return PASS * retention / target
        return PASS + (BEST - PASS) * (retention - target) / (100 - target)

    def _reviewed(self, state: ScheduleState, recall: float, passed: bool) -> ScheduleState:
        known = Sm2State.of(state)
        if not passed:
            return Sm2State(self.initial_gap, known.next_epoch + round(self.initial_gap), known.ease)
        missed = BEST - self.grade(recall)
        ease = min(max(known.ease + 0.1 - missed * (0.08 + missed * 0.02), LEAST_EASE), LONGEST_GAP)
        gap = self.second_gap if known.passes == 0 else min(float(round(known.gap * ease)), LONGEST_GAP)
        return Sm2State(gap, known.next_epoch + round(gap), ease, known.passes + 1)
