"""A control: every `initial_gap` epochs, whatever the recall."""

from dataclasses import dataclass
from typing import ClassVar

from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.recall.schedule.base import INITIAL_GAP, MASTERY_THRESHOLD, Schedule, ScheduleState


@SCHEDULES.add("fixed")
@dataclass(frozen=True, slots=True)
class FixedSchedule(Schedule):
    """A control: every `initial_gap` epochs, whatever the recall."""

    __module__ = "tfcsr.recall.schedule"  # see `base.py`

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, MASTERY_THRESHOLD)

    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState:
        return ScheduleState(state.gap, state.next_epoch + round(state.gap))
