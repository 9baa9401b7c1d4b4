"""What a schedule decides: when one item is due again. The item may be a class or the memory as a whole."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

from tfcsr.errors import SpecError
from tfcsr.options import Option

# Far beyond any training; keeps a long row of passes from overflowing to infinity.
LONGEST_GAP = 1_000_000.0

# A part of somebody's own is known by the names of what it is made of: those they always had.
_HOME = "tfcsr.recall.schedule"

_KINDS: dict[Any, tuple[Any, str]] = {int: (int, "a whole number"), float: (int | float, "a number")}


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Where a schedule stands with its item. A schedule that has to know more adds fields, with defaults."""

    __module__ = _HOME

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
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave. A value that is missing or of another kind is refused."""
        if not isinstance(values, Mapping):
            raise SpecError(f"{values!r} is no state of a schedule: give what its to_dict() returned")
        for known in fields(cls):
            if known.name not in values:
                raise SpecError(f"a state of this schedule has a {known.name}: give all that its to_dict() returned")
            value, (kinds, what) = values[known.name], _KINDS.get(known.type, (object, ""))
            if not isinstance(value, kinds) or (what and isinstance(value, bool)):
                raise SpecError(f"{known.name} {value!r} of a schedule's state is not {what}")
        return cls(**{known.name: values[known.name] for known in fields(cls)})

    @classmethod
    def of(cls, state: "ScheduleState") -> Self:
        """The state itself, if it is one of this kind."""
        if not isinstance(state, cls):
            raise SpecError(
                f"this schedule needs a {cls.__name__}, not a {type(state).__name__}: take it from start() or read()"
            )
        return state


INITIAL_GAP = Option("initial_gap", float, 1.0, "epochs until a task's first probe", low=1, high=LONGEST_GAP)
GAP_MULTIPLIER = Option(
    "gap_multiplier", float, 1.5, "by how much a passed probe stretches the gap", low=1, high=LONGEST_GAP
)
MASTERY_THRESHOLD = Option("mastery_threshold", float, 95.0, "recall, in percent, that passes a probe", low=0, high=100)
RETENTION_TARGET = Option(
    "retention_target",
    float,
    90.0,
    "retention, in percent, that passes a probe: recall now, of what it was when it was last whole",
    low=1,
    high=99,
)


@dataclass(frozen=True, slots=True)
class Schedule(ABC):
    """The configuration; `start` and `review` are functions of it and of the state alone.

    `options` are the fields that a spec can set; a schedule of your own lists its own. It says in `_after` what a pass
    and a failure lead to, or in `_reviewed`, if it goes by the recall itself. One that has to know more than the gap
    names its own class of states in `states`.
    """

    __module__ = _HOME

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, GAP_MULTIPLIER, MASTERY_THRESHOLD)
    states: ClassVar[type[ScheduleState]] = ScheduleState
    relative: ClassVar[bool] = False
    """Whether it is fed with retention: recall in percent of what it was when it was last whole, 100 at most."""

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

    @property
    def pass_mark(self) -> float:
        """The least that passes, in percent."""
        return self.mastery_threshold

    def start(self, after: int = 0) -> ScheduleState:
        """A new item, or a new task: the first probe is due `initial_gap` epochs after epoch `after`."""
        if isinstance(after, bool) or not isinstance(after, int) or after < 0:
            raise SpecError(f"after {after!r} is no epoch: use a whole number from 0 on")
        return self.states(self.initial_gap, after + round(self.initial_gap))

    def review(self, state: ScheduleState, recall: float) -> tuple[ScheduleState, bool]:
        """The state after a probe at `state.next_epoch` that found this recall (percent), and whether it passed."""
        if not 0 <= recall <= 100:
            raise SpecError(f"recall {recall} is outside 0..100 percent")
        passed = recall >= self.pass_mark
        return self._reviewed(state, recall, passed), passed

    def read(self, values: Mapping[str, Any]) -> ScheduleState:
        """A state of this schedule from what its `to_dict` gave."""
        return self.states.from_dict(values)

    def _reviewed(self, state: ScheduleState, recall: float, passed: bool) -> ScheduleState:
        return self._after(state, passed)

    @abstractmethod
    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState: ...

    def to_dict(self) -> dict[str, Any]:
        return {known.name: getattr(self, known.name) for known in fields(self) if known.init}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


@dataclass(frozen=True, slots=True)
class RetentionSchedule(Schedule):
    """Fed with retention: what is kept of what there was. So a class that is hard to learn is not due all the time.

    A pass is a retention of `retention_target`. Values outside the bounds of `options` are refused.
    """

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, RETENTION_TARGET)
    relative: ClassVar[bool] = True

    # Other schedules' settings: they decide nothing here, so nobody can give them.
    gap_multiplier: float = field(default=1.5, init=False, repr=False)
    mastery_threshold: float = field(default=95.0, init=False, repr=False)
    retention_target: float = 90.0

    def __post_init__(self) -> None:
        for option in self.options:
            object.__setattr__(self, option.name, option.checked(getattr(self, option.name)))

    @property
    def pass_mark(self) -> float:
        return self.retention_target

    @abstractmethod
    def _reviewed(self, state: ScheduleState, recall: float, passed: bool) -> ScheduleState: ...

    def _after(self, state: ScheduleState, passed: bool) -> ScheduleState:
        """An answer without a grade is the best or the worst."""
        return self._reviewed(state, 100.0 if passed else 0.0, passed)
