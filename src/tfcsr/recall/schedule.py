"""When the next probe is due: a pure state machine, fed with recall scores. No clock, no I/O, no random numbers.

schedule = ExpandingSchedule(mastery_threshold=95)
state = schedule.start()
for epoch in range(1, 21):
    ...
    if epoch == state.next_epoch:
        state, passed = schedule.review(state, recall)
"""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from tfcsr.errors import SpecError
from tfcsr.options import Option
from tfcsr.registry import Registry

# Far beyond any training; keeps a long row of passes from overflowing to infinity.
LONGEST_GAP = 1_000_000.0


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Where a schedule stands within one task."""

    gap: float
    next_epoch: int

    def __post_init__(self) -> None:
        if not 1 <= self.gap <= LONGEST_GAP:
            raise SpecError(f"gap {self.gap} is outside 1..{LONGEST_GAP:.0f}")
        if self.next_epoch < 1:
            raise SpecError(f"next_epoch {self.next_epoch} is below 1: epochs count from 1")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(gap=float(values["gap"]), next_epoch=int(values["next_epoch"]))


INITIAL_GAP = Option("initial_gap", float, 1.0, "epochs until a task's first probe", low=1, high=LONGEST_GAP)
GAP_MULTIPLIER = Option(
    "gap_multiplier", float, 1.5, "by how much a passed probe stretches the gap", low=1, high=LONGEST_GAP
)
MASTERY_THRESHOLD = Option("mastery_threshold", float, 95.0, "recall, in percent, that passes a probe", low=0, high=100)


@dataclass(frozen=True, slots=True)
class Schedule(ABC):
    """The configuration; `start` and `review` are functions of it and of the state alone.

    `options` are the fields that a spec can set; a schedule of your own lists its own.
    """

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, GAP_MULTIPLIER, MASTERY_THRESHOLD)

    initial_gap: float = 1.0
    gap_multiplier: float = 1.5
    mastery_threshold: float = 95.0

    def __post_init__(self) -> None:
        if not 1 <= self.initial_gap <= LONGEST_GAP:
            raise SpecError(f"initial_gap {self.initial_gap} is outside 1..{LONGEST_GAP:.0f} epochs")
        if not 1 <= self.gap_multiplier < math.inf:
            raise SpecError(f"gap_multiplier {self.gap_multiplier} is below 1: gaps would shrink after a pass")
        if not 0 <= self.mastery_threshold <= 100:
            raise SpecError(f"mastery_threshold {self.mastery_threshold} is outside 0..100 percent")

    def start(self) -> ScheduleState:
        """A new task: the first probe is due after `initial_gap` epochs."""
        return ScheduleState(self.initial_gap, round(self.initial_gap))

    def review(self, state: ScheduleState, recall: float) -> tuple[ScheduleState, bool]:
        """The state after a probe at `state.next_epoch` that found this recall (percent), and whether it passed."""
        if not 0 <= recall <= 100:
            raise SpecError(f"recall {recall} is outside 0..100 percent")
        passed = recall >= self.mastery_threshold
        return self._after(state, passed), passed

    @abstractmethod
    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState: ...

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


SCHEDULES: Registry[type[Schedule]] = Registry("schedule", needs=("start", "review"))


@SCHEDULES.add("expanding")
@dataclass(frozen=True, slots=True)
class ExpandingSchedule(Schedule):
    """The paper's: a pass multiplies the gap, a failure brings the next probe in the very next epoch.

    The timer moves by the gap rounded half to even; added up unrounded, as the paper prints it, it would never equal an
    epoch again after the first pass.
    """

    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState:
        if not passed:
            return ScheduleState(state.gap, state.next_epoch + 1)
        gap = min(state.gap * self.gap_multiplier, LONGEST_GAP)
        return ScheduleState(gap, state.next_epoch + round(gap))


@SCHEDULES.add("fixed")
@dataclass(frozen=True, slots=True)
class FixedSchedule(Schedule):
    """A control: every `initial_gap` epochs, whatever the recall."""

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, MASTERY_THRESHOLD)

    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState:
        return ScheduleState(state.gap, state.next_epoch + round(state.gap))
