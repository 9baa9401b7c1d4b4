"""What a learner tells of itself: what it learned when, what it recalls, how well it answers."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from tfcsr.experiments.result import is_kind
from tfcsr.experiments.statistics import is_forgotten, wilson

Value = TypeVar("Value")


@dataclass(frozen=True)
class Instalment:
    """What one call of `learn` was, and what was recalled of each class right after it, in percent."""

    number: int
    when: str
    source: str
    examples: int
    new_classes: tuple[Hashable, ...]
    known_classes: tuple[Hashable, ...]
    epochs: int
    steps: int
    seconds: float
    recall: float | None
    per_class: Mapping[Hashable, float]

    @classmethod
    def of(cls, entry: Mapping[str, Any], labels: Sequence[Hashable]) -> "Instalment":
        """From its entry in the history."""
        same = ("number", "when", "source", "examples", "epochs", "steps", "seconds")
        return cls(
            **{name: entry[name] for name in same},
            new_classes=tuple(labels[i] for i in entry["new"]),
            known_classes=tuple(labels[i] for i in entry["again"]),
            recall=entry["overall"],
            per_class=by_label(entry["recall"], labels),
        )


@dataclass(frozen=True)
class Recalled:
    """What is still known of the memory, in percent: overall and of each class; how many examples of each are kept and
    how many of these were asked, the best it ever was after a `learn`, and every probe there was.

    With an `exam` only that was asked: examples never trained on. Without, they are also replayed, which flatters.
    """

    overall: float
    per_class: Mapping[Hashable, float]
    kept: Mapping[Hashable, int]
    best: Mapping[Hashable, float]
    history: Sequence[Mapping[str, Any]]
    questions: Mapping[Hashable, int]
    exam: bool

    @property
    def asked(self) -> int:
        """How many examples were asked, of all classes."""
        return sum(self.questions.values())

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which percentages the answers of an exam put what new data would say, with 95 % confidence (Wilson).
        Examples that are also replayed say nothing of new data.
        """
        return wilson(round(self.overall * self.asked / 100), self.asked) if self.exam else None

    @property
    def forgotten(self) -> dict[Hashable, float]:
        """The classes that lost points from their best, and how many; the most first. Of an exam, which asks little,
        those that lost more than chance explains.
        """
        return _lost(self.per_class, self.best, self.questions if self.exam else {})


@dataclass(frozen=True)
class Evaluation:
    """Accuracy in percent on examples with known labels: overall, of each class, and the best each ever was."""

    accuracy: float
    per_class: Mapping[Hashable, float]
    best: Mapping[Hashable, float]
    best_accuracy: float
    examples: int

    @property
    def forgotten(self) -> dict[Hashable, float]:
        return _lost(self.per_class, self.best, {})


def _lost(
    now: Mapping[Hashable, float], best: Mapping[Hashable, float], asked: Mapping[Hashable, int]
) -> dict[Hashable, float]:
    fell = [label for label, value in now.items() if is_forgotten(value, best[label], asked.get(label))]
    lost = {label: best[label] - now[label] for label in fell}
    return dict(sorted(lost.items(), key=lambda entry: -entry[1]))


class History:
    """What a learner has been through: its instalments, its probes, and how it was evaluated; plain values throughout.
    Classes stand in it by number, as text where they are keys.
    """

    def __init__(self) -> None:
        self.instalments: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.probes: list[dict[str, Any]] = []

    def note(self, event: Mapping[str, Any]) -> None:
        """Listens to the loop."""
        if event["event"] == "probe":
            kept = {name: event[name] for name in ("task", "epoch", "recall", "passed", "next_epoch")}
            self.probes.append(kept | {"per_class": {str(i): value for i, value in event["per_class"].items()}})

    def state_dict(self) -> dict[str, Any]:
        return {name: list(entries) for name, entries in vars(self).items()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], classes: int) -> "History":
        """From a file, which may hold anything: what passes can be shown."""
        history = cls()
        for name, kinds in _KINDS.items():
            entries = state[name]
            if not isinstance(entries, list) or not all(_is_entry(entry, kinds, classes) for entry in entries):
                raise ValueError(f"{name} that are none")
            setattr(history, name, [dict(entry) for entry in entries])
        return history


# What each entry has, by the type of its value; a dict has a number for some of the classes, a list some of them.
_KINDS: dict[str, dict[str, Any]] = {
    "instalments": {
        "number": int,
        "when": str,
        "source": str,
        "data": str,
        "examples": int,
        "per_class": dict,
        "new": list,
        "again": list,
        "epochs": int,
        "steps": int,
        "optimizer_steps": int,
        "seconds": float,
        "overall": float | None,
        "recall": dict,
    },
    "evaluations": {"when": str, "after": int, "examples": int, "accuracy": float, "per_class": dict},
    "probes": {
        "task": int,
        "epoch": int,
        "recall": float,
        "passed": bool,
        "next_epoch": int | None,
        "per_class": dict,
    },
}


def _is_entry(entry: Any, kinds: Mapping[str, Any], classes: int) -> bool:
    if not isinstance(entry, dict) or not kinds.keys() <= entry.keys():
        return False
    for name, kind in kinds.items():
        value = entry[name]
        if kind is dict:
            sound = isinstance(value, dict) and all(
                isinstance(i, str) and i.isdecimal() and int(i) < classes and is_kind(v, float)
                for i, v in value.items()
            )
        elif kind is list:
            sound = isinstance(value, list) and all(is_kind(i, int) and 0 <= i < classes for i in value)
        else:
            sound = is_kind(value, kind)
        if not sound:
            return False
    return True


def is_pending(value: Any) -> bool:
    """Whether it says what a learn that was not finished is about."""
    kinds = {"number": int, "data": str, "source": str, "epoch": int, "epochs": int, "known": int}
    return isinstance(value, dict) and all(name in value and is_kind(value[name], kind) for name, kind in kinds.items())


def best_of(entries: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """The highest value of each class under this name."""
    best: dict[str, float] = {}
    for entry in entries:
        for label, value in entry[name].items():
            best[label] = max(value, best.get(label, 0.0))
    return best


def by_label(values: Mapping[Any, Value], labels: Sequence[Hashable]) -> dict[Hashable, Value]:
    """What is known by a class's number, by its label."""
    return {labels[int(number)]: value for number, value in values.items()}


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
