"""The page of a learner: what it knows, since when, and what it is forgetting. One HTML file without any script."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from itertools import groupby
from typing import Any

from tfcsr.experiments.statistics import is_forgotten
from tfcsr.reporting.series import shown
from tfcsr.reporting.view import class_names, thinned
from tfcsr.reporting.words import rough_time

LARGEST = 2_000_000  # bytes
MOST_NAMED = 5  # of them, in the headline
WHOLE = 1 << 53
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEIGHT, EDGE = 200, 12  # of the timeline, in pixels, and what is kept free above and below its marks


@dataclass(frozen=True)
class Limits:
    """How much is shown. Halved until the page is small enough; what is left out is said."""

    classes: int = 1000
    instalments: int = 200
    rows: int = 100  # and columns of a map
    columns: int = 30
    probes: int = 1000
    named: int = 6  # classes, in a cell
    points: int = 24  # of a class's history

    def halved(self) -> "Limits":
        return Limits(*(max(1, value // 2) for value in vars(self).values()))


def render(document: Mapping[str, Any]) -> bytes:
    """The page of a learner's document, in which nothing has to be what it should be. It asks nobody for anything."""
    learner, limits = _Learner(document), Limits()
    while True:
        raw: bytes = _page().render(policy=POLICY, css=_css(), **_view(learner, limits)).encode(errors="replace")
        if len(raw) <= LARGEST or limits == limits.halved():
            return raw
        limits = limits.halved()


@cache
def _page() -> Any:
    import jinja2

    source = files("tfcsr.reporting") / "page" / "learner.html"
    made = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_finalized
    )
    return made.from_string(source.read_text(encoding="utf-8"))


def _finalized(value: Any) -> Any:
    return "–" if value is None else value


@cache
def _css() -> Any:
    from markupsafe import Markup

    source = files("tfcsr.reporting") / "page"
    return Markup("".join((source / name).read_text(encoding="utf-8") for name in ("page.css", "learner.css")))


# What the document says, as far as it can be read.


@dataclass(frozen=True)
class _Instalment:
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
class _Evaluation:
    when: str
    after: int
    examples: int | None
    accuracy: float | None
    per_class: dict[int, float]


@dataclass(frozen=True)
class _Probe:
    task: int
    epoch: int | None
    recall: float
    passed: bool
    per_class: dict[int, float]


@dataclass
class _Class:
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


class _Learner:
    def __init__(self, document: Mapping[str, Any]) -> None:
        told = _mapping(document)
        self.name = _text(told.get("name")) or "learner"
        self.method, self.model = _text(told.get("method")), _text(told.get("model"))
        self.version, self.made = _text(told.get("version")), _moment(told.get("made"))
        self.capacity = _count(told.get("capacity")) or 0
        self.overall = _percent(told.get("recall_overall"))
        names = [name if isinstance(name, str) else "" for name in _list(told.get("classes"))]
        called = class_names(names)
        self.classes = [_Class(called.get(i, f"class {i}")) for i in range(len(names))]
        entries = enumerate(map(_mapping, _list(told.get("instalments"))), start=1)
        self.instalments = [self._instalment(entry, i) for i, entry in entries]
        self.evaluations = [self._evaluation(_mapping(entry)) for entry in _list(told.get("evaluations"))]
        probes = [self._probe(_mapping(entry)) for entry in _list(told.get("probes"))]
        self.probes = [probe for probe in probes if probe is not None]
        unfinished = told.get("unfinished")
        self.unfinished = _mapping(unfinished) if isinstance(unfinished, Mapping) else None
        self._tell(_list(told.get("kept")), _list(told.get("recall_now")), _list(told.get("exam")))

    def _instalment(self, entry: Mapping[str, Any], place: int) -> _Instalment:
        return _Instalment(
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

    def _evaluation(self, entry: Mapping[str, Any]) -> _Evaluation:
        return _Evaluation(
            _moment(entry.get("when")),
            _count(entry.get("after")) or 0,
            _count(entry.get("examples")),
            _percent(entry.get("accuracy")),
            self._percents(entry.get("per_class")),
        )

    def _probe(self, entry: Mapping[str, Any]) -> _Probe | None:
        recall = _percent(entry.get("recall"))
        if recall is None:
            return None
        found = self._percents(entry.get("per_class"))
        return _Probe(
            _count(entry.get("task")) or 0, _count(entry.get("epoch")), recall, entry.get("passed") is True, found
        )

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


# What the page shows of it.


def _view(learner: _Learner, limits: Limits) -> dict[str, Any]:
    left_out: list[str] = []
    low = _low([value for one in learner.classes for _, value in [*one.recall, *one.accuracy]])
    order = sorted(range(len(learner.classes)), key=lambda i: -learner.classes[i].lost)  # of equals the first seen
    listed = order[: limits.classes]
    if len(listed) < len(order):
        left_out.append(f"of {len(order):,} classes the {len(listed):,} that lost most are listed")
    instalments = learner.instalments[-limits.instalments :]
    if len(instalments) < len(learner.instalments):
        left_out.append(f"of {len(learner.instalments):,} instalments the last {len(instalments):,} are listed")
    return {
        "learner": learner,
        "made_of": " on ".join(filter(None, (learner.method, learner.model))),
        "knows": _knows(learner),
        "remembers": _remembers(learner),
        "nothing": _nothing(learner),
        "forgotten": _forgotten(learner, order),
        "facts": _facts(learner),
        "unfinished": _unfinished(learner),
        "low": low,
        "classes": [_row(learner, learner.classes[i], low, limits) for i in listed],
        "gone": sum(one.now is None for one in learner.classes),
        "instalments": [_listed(learner, one, limits) for one in instalments],
        "recall_map": _recall_map(learner, order, limits, left_out),
        "accuracy_map": _accuracy_map(learner, order, limits, left_out),
        "timeline": _timeline(learner, limits, left_out),
        "left_out": left_out,
    }


def _knows(learner: _Learner) -> str:
    since = next((one.when for one in learner.instalments if one.when), "")
    classes = "1 class" if len(learner.classes) == 1 else f"{len(learner.classes):,} classes"
    return f"{classes} learned in {_many(len(learner.instalments), 'instalment')}{since and f' since {since}'}"


def _remembers(learner: _Learner) -> str:
    parts = []
    if learner.overall is not None:
        count = learner.exam or learner.kept
        kept = f"the {_many(count, 'example')} {'of its exam' if learner.exam else 'kept'}" if count else "what is kept"
        parts.append(f"{learner.overall:.1f} % of {kept} {'is' if count < 2 else 'are'} recalled now")
    last = next((one for one in reversed(learner.evaluations) if one.accuracy is not None), None)
    if last is not None:
        data = "" if last.examples is None else f" of {_many(last.examples, 'example')}"
        parts.append(
            f"{last.accuracy:.1f} %{data} {'was' if last.examples == 1 else 'were'} right in the last evaluation"
        )
    if parts:
        return ", and ".join(parts)
    return "what is remembered is not known" + ("" if learner.capacity else ", for this method keeps no examples")


def _forgotten(learner: _Learner, order: Sequence[int]) -> dict[str, Any]:
    found = [learner.classes[i] for i in order if learner.classes[i].forgotten]
    named = found[:MOST_NAMED]
    return {"named": [(one.name, _signed(-one.lost)) for one in named], "more": len(found) - len(named)}


def _nothing(learner: _Learner) -> str:
    """That no class is said to be forgotten, as far as can be told."""
    if learner.exam:
        return "no class lost more than chance explains"
    if any(one.accuracy for one in learner.classes):
        return "no class is being forgotten"
    # What was trained on may be known by heart: that it is recalled says little.
    known = any(one.now is not None for one in learner.classes)
    return "no class shows that it is being forgotten" if known else ""


def _facts(learner: _Learner) -> list[tuple[str, str]]:
    facts = [("classes", f"{len(learner.classes):,}"), ("instalments", f"{len(learner.instalments):,}")]
    facts.append(("examples seen", f"{sum(one.seen for one in learner.classes):,}"))
    if learner.capacity:
        facts.append(("examples kept", f"{learner.kept:,} of {learner.capacity:,}"))
    if learner.exam:
        facts.append(("of these, the exam", f"{learner.exam:,}"))
    if learner.overall is not None:
        facts.append(("recall now", f"{learner.overall:.1f} %"))
    accuracies = [one.accuracy for one in learner.evaluations if one.accuracy is not None]
    if accuracies:
        facts.append(("last accuracy", f"{accuracies[-1]:.1f} %"))
    return facts


def _unfinished(learner: _Learner) -> str:
    if learner.unfinished is None:
        return ""
    source = _text(learner.unfinished.get("source"), 80)
    epoch, epochs = (_count(learner.unfinished.get(name)) for name in ("epoch", "epochs"))
    where = f"epoch {epoch} of {epochs}" if epoch is not None and epochs is not None else ""
    return ", ".join(filter(None, (source, where))) or "one that does not say what it is"


def _row(learner: _Learner, one: _Class, low: int, limits: Limits) -> dict[str, Any]:
    return {
        "name": one.name,
        "learned": one.learned,
        "seen": f"{one.seen:,}",
        "kept": None if one.kept is None else f"{one.kept:,}",
        "now": _tenths(one.now),
        "best": _tenths(one.best),
        "change": _signed(one.change),
        "fell": one.recall_fell,
        "accuracy": _tenths(one.accuracy_last),
        "accuracy_best": _tenths(one.accuracy_best),
        "accuracy_fell": one.accuracy_fell,
        "spark": _spark(learner, one, low, limits.points),
    }


def _spark(learner: _Learner, one: _Class, low: int, points: int) -> dict[str, str] | None:
    """A class's history as two lines, of recall and of accuracy. All classes' have the same scales."""
    last = len(learner.instalments) - 1

    def at(place: int, value: float) -> str:
        x = 94 if last < 1 else 3 + round(91 * place / last)
        return f"{x} {3 + 18 * (100 - value) / (100 - low):.3g}"

    def line(found: Sequence[tuple[int, float]]) -> str:
        return "M" + "L".join(at(*found[i]) for i in thinned(len(found), points)) if found else ""

    if not one.recall and not one.accuracy and one.now is None:
        return None
    words = []
    if one.recall:
        words.append(f"recall {one.recall[0][1]:.1f} % at first")
    if one.now is not None:
        words.append(f"recall {one.now:.1f} % now, {one.best:.1f} % at best")
    if one.accuracy:
        words.append(f"accuracy {one.accuracy_last:.1f} % last, {one.accuracy_best:.1f} % at best")
    dot = "" if one.now is None else f"M{at(max(last, 0), one.now)}h0"
    return {"recall": line(one.recall), "accuracy": line(one.accuracy), "dot": dot, "words": "; ".join(words)}


def _listed(learner: _Learner, one: _Instalment, limits: Limits) -> dict[str, Any]:
    def some(labels: Sequence[int]) -> tuple[list[str], int]:
        return [learner.classes[label].name for label in labels[: limits.named]], max(0, len(labels) - limits.named)

    return {
        "number": one.number,
        "when": one.when or None,
        "source": one.source or None,
        "examples": None if one.examples is None else f"{one.examples:,}",
        "new": some(one.new),
        "again": some(one.again),
        "epochs": one.epochs,
        "seconds": None if one.seconds is None else rough_time(one.seconds),
        "overall": _tenths(one.overall),
    }


def _recall_map(learner: _Learner, order: Sequence[int], limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
    if not any(one.recall for one in learner.classes):
        return None
    heads = [
        (str(one.number), f"instalment {one.number}", ", ".join(filter(None, (one.when, one.source))))
        for one in learner.instalments
    ]
    columns = [one.recall for one in learner.instalments]
    overall = [one.overall for one in learner.instalments]
    return _map(learner, "instalments", order, heads, columns, overall, limits, left_out)


def _accuracy_map(
    learner: _Learner, order: Sequence[int], limits: Limits, left_out: list[str]
) -> dict[str, Any] | None:
    if not learner.evaluations:
        return None
    heads = []
    for number, one in enumerate(learner.evaluations, start=1):
        data = "" if one.examples is None else _many(one.examples, "example")
        title = ", ".join(filter(None, (one.when, f"after instalment {one.after}", data)))
        heads.append((str(number), f"evaluation {number}", title))
    columns = [one.per_class for one in learner.evaluations]
    overall = [one.accuracy for one in learner.evaluations]
    return _map(learner, "evaluations", order, heads, columns, overall, limits, left_out)


def _map(
    learner: _Learner,
    things: str,
    order: Sequence[int],
    heads: Sequence[tuple[str, str, str]],
    columns: Sequence[Mapping[int, float]],
    overall: Sequence[float | None],
    limits: Limits,
    left_out: list[str],
) -> dict[str, Any]:
    """Classes in the order they were first seen, and those that lost most of them where not all have room."""
    drawn = thinned(len(columns), limits.columns)
    rows = sorted(order[: limits.rows])
    if len(drawn) < len(columns):
        left_out.append(f"the map of {len(columns):,} {things} has {len(drawn)} of them")
    if len(rows) < len(order):
        left_out.append(f"the map of {things} has the {len(rows):,} of {len(order):,} classes that lost most")

    def cell(name: str, i: int, value: float | None) -> tuple[str, int, str] | None:
        return None if value is None else (f"{value:.0f}", round(value / 5), f"{name}, {heads[i][1]}: {value:.1f} %")

    body = [("all classes", [cell("all classes", i, overall[i]) for i in drawn])]
    for label in rows:
        name = learner.classes[label].name
        body.append((name, [cell(name, i, columns[i].get(label)) for i in drawn]))
    return {"heads": [(heads[i][0], heads[i][2]) for i in drawn], "rows": body}


def _timeline(learner: _Learner, limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
    """Every probe in order, or as many as there is room for: then of those that failed first."""
    if not learner.probes:
        return None
    failed = [i for i, probe in enumerate(learner.probes) if not probe.passed]
    passed = [i for i, probe in enumerate(learner.probes) if probe.passed]
    if len(learner.probes) > limits.probes:
        failed = [failed[i] for i in thinned(len(failed), max(limits.probes // 2, limits.probes - len(passed)))]
        passed = [passed[i] for i in thinned(len(passed), max(1, limits.probes - len(failed)))]
        shown_ones = len(failed) + len(passed)
        left_out.append(f"of {len(learner.probes):,} probes {shown_ones:,} are shown, those that failed before others")
    drawn = [learner.probes[i] for i in sorted(failed + passed)]
    low = _low([probe.recall for probe in drawn])
    bands, start = [], 0
    for task, group in groupby(drawn, key=lambda probe: probe.task):
        count = sum(1 for _ in group)
        x, width = 100 * start / len(drawn), 100 * count / len(drawn)
        bands.append((f"{x:.2f}", f"{width:.2f}", f"{x + width / 2:.2f}", task if width >= 4 else ""))
        start += count
    count = len(learner.probes)
    worked = sum(probe.passed for probe in learner.probes)
    return {
        "words": f"{_many(count, 'probe')}: {worked:,} passed, {count - worked:,} failed.",
        "height": HEIGHT,
        "width": min(5 * len(drawn), 1500),
        "bands": bands,
        "grid": [(f"{_down(value, low):g}", f"{value:g}") for value in (100, (100 + low) / 2, low)],
        "marks": [
            (f"{100 * (i + 0.5) / len(drawn):.2f}", f"{_down(one.recall, low):.3g}", one, _weakest(learner, one))
            for i, one in enumerate(drawn)
        ],
    }


def _weakest(learner: _Learner, probe: _Probe) -> tuple[str, str] | None:
    if not probe.per_class:
        return None
    label = min(probe.per_class, key=lambda label: (probe.per_class[label], label))
    return learner.classes[label].name, f"{probe.per_class[label]:.1f}"


def _down(value: float, low: int) -> float:
    """How far from the top of the timeline, in pixels."""
    return EDGE + (HEIGHT - 2 * EDGE) * (100 - value) / (100 - low)


def _low(values: Sequence[float]) -> int:
    """Where a scale begins that all values fit on: not at 0, for a few points are what there is to see."""
    return min(80, 10 * math.floor(min(values, default=100.0) / 10))


def _many(count: int, thing: str) -> str:
    return f"1 {thing}" if count == 1 else f"{count:,} {thing}s"


def _tenths(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _signed(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:+.1f}".replace("-", "−") if value else "0.0"
