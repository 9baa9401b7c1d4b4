"""What a learner's document says, as far as it can be read: nothing in it has to be what it should be."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tfcsr.experiments.statistics import is_forgotten
from tfcsr.reporting.series import shown
from tfcsr.reporting.view import class_names

WHOLE = 1 << 53


@dataclass(frozen=True)
class Instalment:
    number: int
    when: str
    source: str
    examples: int | None
    per_class: dict[int, int]
    new: list[int]
    again: list[int]
    epochs: int | None
    seconds: float | None
    recall: dict[int, float]
    overall: float | None


@dataclass(frozen=True)
class Unfinished:
    source: str
    epoch: int | None
    epochs: int | None


@dataclass(frozen=True)
class Evaluation:
    when: str
    after: int
    examples: int | None
    accuracy: float | None
    per_class: dict[int, float]


@dataclass(frozen=True)
class Probe:
    task: int
    epoch: int | None
    recall: float
    passed: bool
    per_class: dict[int, float]


@dataclass
class Class:
    """A class with its history: places among the instalments, and what was found there."""

    name: str
    learned: int | None = None
    seen: int = 0
    kept: int | None = None
    asked: int = 0  # of an exam, if there is one
    recall: list[tuple[int, float]] = field(default_factory=list)
    now: float | None = None
    accuracy: list[tuple[int, float]] = field(default_factory=list)

    @cached_property
    def best(self) -> float | None:
        return max([value for _, value in self.recall] + ([] if self.now is None else [self.now]), default=None)

    @property
    def change(self) -> float | None:
        return None if self.now is None or self.best is None else round(self.now - self.best, 1)

    @property
    def accuracy_last(self) -> float | None:
        return self.accuracy[-1][1] if self.accuracy else None

    @cached_property
    def accuracy_best(self) -> float | None:
        return max((value for _, value in self.accuracy), default=None)

    @property
    def accuracy_change(self) -> float | None:
        last, best = self.accuracy_last, self.accuracy_best
        return None if last is None or best is None else round(last - best, 1)

    @cached_property
    def lost(self) -> float:
        """Points below its best, by recall or by accuracy."""
        return -min(self.change or 0.0, self.accuracy_change or 0.0)

    @cached_property
    def recall_fell(self) -> bool:
        return self.now is not None and self.best is not None and is_forgotten(self.now, self.best, self.asked)

    @cached_property
    def accuracy_fell(self) -> bool:
        last, best = self.accuracy_last, self.accuracy_best
        return last is not None and best is not None and is_forgotten(last, best)

    @property
    def forgotten(self) -> bool:
        return self.recall_fell or self.accuracy_fell


class Learner:
    def __init__(self, document: Mapping[str, Any]) -> None:
        told = _mapping(document)
        self.name = _text(told.get("name")) or "learner"
        self.method, self.model = _text(told.get("method")), _text(told.get("model"))
        self.version, self.made = _text(told.get("version")), _moment(told.get("made"))
        self.capacity = _count(told.get("capacity")) or 0
        self.overall = _percent(told.get("recall_overall"))
        names = [name if isinstance(name, str) else "" for name in _list(told.get("classes"))]
        called = class_names(names)
        self.classes = [Class(called.get(i, f"class {i}")) for i in range(len(names))]
        entries = enumerate(map(_mapping, _list(told.get("instalments"))), start=1)
        self.instalments = [self._instalment(entry, i) for i, entry in entries]
        self.evaluations = [self._evaluation(_mapping(entry)) for entry in _list(told.get("evaluations"))]
        probes = [self._probe(_mapping(entry)) for entry in _list(told.get("probes"))]
        self.probes = [probe for probe in probes if probe is not None]
        unfinished = told.get("unfinished")
        self.unfinished = self._unfinished(unfinished) if isinstance(unfinished, Mapping) else None
        self._tell(_list(told.get("kept")), _list(told.get("recall_now")), _list(told.get("exam")))

    def _instalment(self, entry: Mapping[str, Any], place: int) -> Instalment:
        return Instalment(
            _count(entry.get("number")) or place,
            _moment(entry.get("when")),
            _text(entry.get("source"), 80),
            _count(entry.get("examples")),
            {label: n for label, value in self._by_class(entry.get("per_class")) if (n := _count(value)) is not None},
            self._labels(entry.get("new")),
            self._labels(entry.get("again")),
            _count(entry.get("epochs")),
            _seconds(entry.get("seconds")),
            self._percents(entry.get("recall")),
            _percent(entry.get("overall")),
        )

    def _evaluation(self, entry: Mapping[str, Any]) -> Evaluation:
        return Evaluation(
            _moment(entry.get("when")),
            _count(entry.get("after")) or 0,
            _count(entry.get("examples")),
            _percent(entry.get("accuracy")),
            self._percents(entry.get("per_class")),
        )

    def _probe(self, entry: Mapping[str, Any]) -> Probe | None:
        recall = _percent(entry.get("recall"))
        if recall is None:
            return None
        found = self._percents(entry.get("per_class"))
        return Probe(
            _count(entry.get("task")) or 0, _count(entry.get("epoch")), recall, entry.get("passed") is True, found
        )

    def _unfinished(self, entry: Mapping[str, Any]) -> Unfinished:
        return Unfinished(_text(entry.get("source"), 80), _count(entry.get("epoch")), _count(entry.get("epochs")))

    def _by_class(self, values: Any) -> list[tuple[int, Any]]:
        """By class index, which JSON can only say as text."""
        return [
            (label, value)
            for key, value in _mapping(values).items()
            if (label := _label(key)) is not None and label < len(self.classes)
        ]

    def _percents(self, values: Any) -> dict[int, float]:
        return {label: found for label, value in self._by_class(values) if (found := _percent(value)) is not None}

    def _labels(self, values: Any) -> list[int]:
        labels = [label for value in _list(values) if (label := _count(value)) is not None]
        return [label for label in labels if label < len(self.classes)]

    def _tell(self, kept: list[Any], now: list[Any], exam: list[Any]) -> None:
        """Each class what was said of it."""
        for one, count in zip(self.classes, kept, strict=False):
            one.kept = _count(count)
        for one, count in zip(self.classes, exam, strict=False):
            one.asked = _count(count) or 0
        for one, value in zip(self.classes, now, strict=False):
            one.now = _percent(value)
        for place, instalment in enumerate(self.instalments):
            for label, count in instalment.per_class.items():
                self.classes[label].seen += count
            for label, value in instalment.recall.items():
                self.classes[label].recall.append((place, value))
            for label in [*instalment.new, *(label for label, n in instalment.per_class.items() if n)]:
                if self.classes[label].learned is None:
                    self.classes[label].learned = instalment.number
        places = {instalment.number: place for place, instalment in enumerate(self.instalments)}
        for evaluation in self.evaluations:
            place = places.get(evaluation.after, 0 if not evaluation.after else max(len(places) - 1, 0))
            for label, value in evaluation.per_class.items():
                self.classes[label].accuracy.append((place, value))

    @property
    def kept(self) -> int:
        return sum(one.kept or 0 for one in self.classes)

    @cached_property
    def exam(self) -> int:
        """How many of them are never trained on: then these alone are asked."""
        return sum(one.asked for one in self.classes)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _moment(value: Any) -> str:
    """A date and time to the minute, as people write them."""
    text = _text(value)
    return text.replace("T", " ")[:16] if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d", text) else text


def _text(value: Any, longest: int = 60) -> str:
    return shown(value[: 2 * longest], longest).strip() if isinstance(value, str) else ""


def _label(key: Any) -> int | None:
    if isinstance(key, str):
        return int(key) if key.isascii() and key.isdecimal() and len(key) < 10 else None
    return _count(key)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < WHOLE else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < WHOLE:  # nor NaN
        return None
    return float(value)


def _seconds(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else max(0.0, number)


def _percent(value: Any) -> float | None:
    """To a tenth, as it is shown: what is said of it shall follow from what is seen of it."""
    number = _number(value)
    return None if number is None else round(min(100.0, max(0.0, number)), 1)
