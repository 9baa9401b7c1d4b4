"""When the next probe is due: pure state machines, fed with recall scores. No clock, no I/O, no random numbers.

schedule = ExpandingSchedule(mastery_threshold=95)
state = schedule.start()
for epoch in range(1, 21):
    ...
    if epoch == state.next_epoch:
        state, passed = schedule.review(state, recall)

A file per schedule; `base.py` says what one has to answer.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tfcsr.recall.schedule.base import GAP_MULTIPLIER as GAP_MULTIPLIER
from tfcsr.recall.schedule.base import INITIAL_GAP as INITIAL_GAP
from tfcsr.recall.schedule.base import LONGEST_GAP as LONGEST_GAP
from tfcsr.recall.schedule.base import MASTERY_THRESHOLD as MASTERY_THRESHOLD
from tfcsr.recall.schedule.base import RETENTION_TARGET as RETENTION_TARGET
from tfcsr.recall.schedule.base import RetentionSchedule as RetentionSchedule
from tfcsr.recall.schedule.base import Schedule as Schedule
from tfcsr.recall.schedule.base import ScheduleState as ScheduleState
from tfcsr.registry import Registry

if TYPE_CHECKING:
    from tfcsr.recall.schedule.expanding import ExpandingSchedule as ExpandingSchedule
    from tfcsr.recall.schedule.fixed import FixedSchedule as FixedSchedule
    from tfcsr.recall.schedule.fsrs import FsrsSchedule as FsrsSchedule
    from tfcsr.recall.schedule.leitner import LeitnerSchedule as LeitnerSchedule
    from tfcsr.recall.schedule.sm2 import Sm2Schedule as Sm2Schedule

SCHEDULES: Registry[type[Schedule]] = Registry("schedule", __name__, needs=("start", "review"))

# Looked up each time: an entry registers itself here, so it cannot be imported before there is a registry.
_HOME = {
    "ExpandingSchedule": "expanding",
    "FixedSchedule": "fixed",
    "FsrsSchedule": "fsrs",
    "LeitnerSchedule": "leitner",
    "Sm2Schedule": "sm2",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
