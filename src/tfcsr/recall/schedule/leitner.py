"""Leitner's boxes: a pass moves the item one box up, where the gap is twice as long; a failure, back to the first."""

from dataclasses import dataclass
from typing import ClassVar

from tfcsr.errors import SpecError
from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.recall.schedule.base import INITIAL_GAP, LONGEST_GAP, RETENTION_TARGET, RetentionSchedule, ScheduleState

MOST_BOXES = 20
BOXES = Option("boxes", int, 5, "how many boxes there are; the gap doubles from box to box", low=1, high=MOST_BOXES)


@dataclass(frozen=True, slots=True)
class LeitnerState(ScheduleState):
    box: int = 0
    """Counted from 0."""

    def __post_init__(self) -> None:
        ScheduleState.__post_init__(self)
        if not 0 <= self.box < MOST_BOXES:
            raise SpecError(f"box {self.box} is outside 0..{MOST_BOXES - 1}")


@SCHEDULES.add("leitner")
@dataclass(frozen=True, slots=True)
class LeitnerSchedule(RetentionSchedule):
    """Box b is due every `initial_gap` · 2**b epochs: 1, 2, 4, 8 and 16 by default. From the last box a pass leads
    nowhere else. (Leitner 1972, So lernt man lernen.)
    """

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, RETENTION_TARGET, BOXES)
    states: ClassVar[type[ScheduleState]] = LeitnerState

    boxes: int = 5

    def _reviewed(self, state: ScheduleState, recall: float, passed: bool) -> ScheduleState:
        box = min(LeitnerState.of(state).box + 1, self.boxes - 1) if passed else 0
        gap = min(self.initial_gap * 2**box, LONGEST_GAP)
        return LeitnerState(gap, state.next_epoch + round(gap), box)
