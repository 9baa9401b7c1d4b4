"""The page of a learner: what it knows, since when, and what it is forgetting. One HTML file without any script."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from tfcsr.reporting.learner.document import Class, Instalment, Learner, Probe
from tfcsr.reporting.view import thinned
from tfcsr.reporting.words import rough_time

LARGEST = 2_000_000  # bytes
MOST_NAMED = 5  # of them, in the headline
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
    learner, limits = Learner(document), Limits()
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


def _view(learner: Learner, limits: Limits) -> dict[str, Any]:
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


def _knows(learner: Learner) -> str:
    since = next((one.when for one in learner.instalments if one.when), "")
    classes = "1 class" if len(learner.classes) == 1 else f"{len(learner.classes):,} classes"
    return f"{classes} learned in {_many(len(learner.instalments), 'instalment')}{since and f' since {since}'}"


def _remembers(learner: Learner) -> str:
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


def _forgotten(learner: Learner, order: Sequence[int]) -> dict[str, Any]:
    found = [learner.classes[i] for i in order if learner.classes[i].forgotten]
    named = found[:MOST_NAMED]
    return {"named": [(one.name, _signed(-one.lost)) for one in named], "more": len(found) - len(named)}


def _nothing(learner: Learner) -> str:
    """That no class is said to be forgotten, as far as can be told."""
    if learner.exam:
        return "no class lost more than chance explains"
    if any(one.accuracy for one in learner.classes):
        return "no class is being forgotten"
    # What was trained on may be known by heart: that it is recalled says little.
    known = any(one.now is not None for one in learner.classes)
    return "no class shows that it is being forgotten" if known else ""


def _facts(learner: Learner) -> list[tuple[str, str]]:
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


def _unfinished(learner: Learner) -> str:
    one = learner.unfinished
    if one is None:
        return ""
    where = f"epoch {one.epoch} of {one.epochs}" if one.epoch is not None and one.epochs is not None else ""
    return ", ".join(filter(None, (one.source, where))) or "one that does not say what it is"


def _row(learner: Learner, one: Class, low: int, limits: Limits) -> dict[str, Any]:
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


def _spark(learner: Learner, one: Class, low: int, points: int) -> dict[str, str] | None:
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


def _listed(learner: Learner, one: Instalment, limits: Limits) -> dict[str, Any]:
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


def _recall_map(learner: Learner, order: Sequence[int], limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
    if not any(one.recall for one in learner.classes):
        return None
    heads = [
        (str(one.number), f"instalment {one.number}", ", ".join(filter(None, (one.when, one.source))))
        for one in learner.instalments
    ]
    columns = [one.recall for one in learner.instalments]
    overall = [one.overall for one in learner.instalments]
    return _map(learner, "instalments", order, heads, columns, overall, limits, left_out)


def _accuracy_map(learner: Learner, order: Sequence[int], limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
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
    learner: Learner,
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


def _timeline(learner: Learner, limits: Limits, left_out: list[str]) -> dict[str, Any] | None:
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


def _weakest(learner: Learner, probe: Probe) -> tuple[str, str] | None:
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
