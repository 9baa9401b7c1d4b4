"""The paper's: a pass multiplies the gap, a failure brings the next probe in the very next epoch."""

from dataclasses import dataclass
from typing import ClassVar

from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.recall.schedule.base import (
    GAP_MULTIPLIER,
    INITIAL_GAP,
    LONGEST_GAP,
    MASTERY_THRESHOLD,
    Schedule,
    ScheduleState,
)


@SCHEDULES.add("expanding")
@dataclass(frozen=True, slots=True)
class ExpandingSchedule(Schedule):
    """The paper's: a pass multiplies the gap, a failure brings the next probe in the very next epoch.

    The timer moves by the gap rounded half to even; added up unrounded, as the paper prints it, it would never equal an
    epoch again after the first pass.
    """

    __module__ = "tfcsr.recall.schedule"  # see `base.py`

    # Said again here: a file of ours that does not mention any is taken to have none.
    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, GAP_MULTIPLIER, MASTERY_THRESHOLD)

    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState:
        if not passed:
            return ScheduleState(state.gap, state.next_epoch + 1)
        gap = min(state.gap * self.gap_multiplier, LONGEST_GAP)
        return ScheduleState(gap, state.next_epoch + round(gap))
