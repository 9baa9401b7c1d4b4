"""A forgetting curve fitted to the answers, as in FSRS: due again when retention should have fallen to its target."""

from dataclasses import dataclass
from typing import ClassVar

from tfcsr.errors import SpecError
from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.recall.schedule.base import INITIAL_GAP, LONGEST_GAP, RETENTION_TARGET, RetentionSchedule, ScheduleState

# Of FSRS-4.5: after as many epochs as the stability says, nine tenths are retained.
DECAY, FACTOR = -0.5, 19 / 81

# Far below what any gap can show.
LEAST_STABILITY = 1e-6
# What is known of the stability weighs as much as so many answers at most: a network changes.
MOST_ANSWERS = 3
# No answer shows less forgetting than a fifth of what the target allows: a probe asks for some examples only, and that
# all of them are right does not prove that nothing is forgotten.
FINEST = 5
# Nor does one show that it would be due after less than a tenth of an epoch: it is due after one at least, and would
# take long to recover.
SOONEST = 0.1

INITIAL_STABILITY = Option(
    "initial_stability",
    float,
    1.0,
    "epochs after which 90 % should be retained, before the first answer; counts as one answer",
    low=LEAST_STABILITY,
    high=LONGEST_GAP,
)


def retained(epochs: float, stability: float) -> float:
    """The forgetting curve: the share (0..1) that is left after so many epochs."""
    return float((1 + FACTOR * epochs / stability) ** DECAY)


def epochs_until(share: float, stability: float) -> float:
    """When the curve comes down to this share."""
    return float(stability / FACTOR * (share ** (1 / DECAY) - 1))


def stability_of(share: float, epochs: float) -> float:
    """Whose curve comes down to this share after so many epochs."""
    return float(FACTOR * epochs / (share ** (1 / DECAY) - 1))


@dataclass(frozen=True, slots=True)
class FsrsState(ScheduleState):
    stability: float = 1.0
    """In epochs: when 90 % should be retained."""
    answers: int = 1
    """How many answers that rests on; more count as `MOST_ANSWERS`."""

    def __post_init__(self) -> None:
        ScheduleState.__post_init__(self)
        if not LEAST_STABILITY <= self.stability <= LONGEST_GAP:
            raise SpecError(f"stability {self.stability} is outside {LEAST_STABILITY}..{LONGEST_GAP:.0f} epochs")
        if not 1 <= self.answers <= MOST_ANSWERS:
            raise SpecError(f"answers {self.answers} is outside 1..{MOST_ANSWERS}")


@SCHEDULES.add("fsrs")
@dataclass(frozen=True, slots=True)
class FsrsSchedule(RetentionSchedule):
    """The curve is (1 + 19/81 · t/S) ** -0.5 after t epochs, with a stability S that is fitted to the answers.

    An answer after t epochs says which S would have led to it. A pass moves log S towards that, as the mean of the last
    answers would: by a half, a third, and from then on a fourth. A failure is taken at its word, and what was known
    before it is given up. The next probe is due when the curve comes down to `retention_target`, after one epoch at
    least.

    FSRS fits some twenty numbers to many people's answers, among them by how much a review makes an item more stable.
    Here nothing is assumed of that: where replay makes it more stable, the answers will show it.
    """

    options: ClassVar[tuple[Option, ...]] = (INITIAL_GAP, RETENTION_TARGET, INITIAL_STABILITY)
    states: ClassVar[type[ScheduleState]] = FsrsState

    initial_stability: float = 1.0

    def start(self, after: int = 0) -> ScheduleState:
        first = RetentionSchedule.start(self, after)
        return FsrsState(first.gap, first.next_epoch, self.initial_stability)

    def observed(self, epochs: int, retention: float) -> float:
        """The stability that an answer speaks for: this retention (percent) after so many epochs."""
        target = self.retention_target / 100
        share = min(max(retention / 100, target / 100), 1 - (1 - target) / FINEST)
        return max(stability_of(share, epochs), stability_of(target, SOONEST))

    def _reviewed(self, state: ScheduleState, recall: float, passed: bool) -> ScheduleState:
        known = FsrsState.of(state)
        stability, answers = self.observed(round(known.gap), recall), 1
        if passed:
            step = 1 / (known.answers + 1)
            stability = known.stability ** (1 - step) * stability**step
            answers = min(known.answers + 1, MOST_ANSWERS)
        stability = min(max(stability, LEAST_STABILITY), LONGEST_GAP)
        gap = min(max(epochs_until(self.retention_target / 100, stability), 1.0), LONGEST_GAP)
        return FsrsState(gap, known.next_epoch + round(gap), stability, answers)
