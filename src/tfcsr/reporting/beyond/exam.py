"""How well what the memory says can be believed."""

from collections.abc import Sequence

from tfcsr.beyond.arms import NAMES, OURS
from tfcsr.beyond.honesty import BINS, SOURCES, Honesty, binned, honesty
from tfcsr.beyond.ingredients import exam_cost
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.experiments.statistics import FEWEST
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.pages import markdown_table, with_interval
from tfcsr.reporting.words import capital, counted


def exam_lines(study: Beyond) -> list[str]:
    found = [honesty(study, source, method) for source in SOURCES for method in SOURCES[source][1]]
    header = (
        "asked",
        "method",
        "questions a class",
        "correlation, per class",
        "an honest one of that size would have",
        "recall − accuracy, points",
        "the same at the end",
        "error of the whole, points",
        "95 % interval covers the accuracy",
    )
    rows = [
        (
            SOURCES[one.source][0],
            NAMES[one.method],
            "–" if one.asked is None else f"{one.asked:.1f}",
            with_interval(one.correlation, without="no runs" if not one.n else "not defined"),
            "–" if one.honest_correlation is None else f"{one.honest_correlation.mean:.2f}",
            with_interval(one.bias, "+", without="–"),
            with_interval(one.bias_at_end, "+", without="–"),
            with_interval(one.error, without="–"),
            f"{one.covered} of {one.moments}" if one.moments else "–",
        )
        for one in found
    ]
    arms = [arm for _, arms in SOURCES.values() for arm in arms.values()]
    otherwise = any(record.all_outputs for arm in arms for record in study.of(arm).values())
    costs = [exam_cost(study, method) for method in SOURCES["exam"][1]]
    paid = [f"{NAMES[cost.method]} {cells.points(cost.difference)}" for cost in costs if cost.difference is not None]
    return [
        "After each task the memory is asked what it recalls of each class seen so far, and the test data are asked the"
        " same. Recall is with the choice restricted to the classes in the memory, which are those seen; accuracy is by"
        " the method's own answers. Intervals of the whole are Wilson's; a moment is a run after a task.",
        "",
        *markdown_table(header, rows),
        *_bias_table(found),
        *_bin_table(found),
        *cells.sentences(
            [_honesty_said(one) for one in found if one.n],
            f"What an exam costs in accuracy, paired: {'; '.join(paid)}." if paid else "",
            f"Runs of `{OURS}` that were asked over all outputs count at the end alone." if otherwise else "",
        ),
    ]


def _name(one: Honesty) -> str:
    return f"{capital(SOURCES[one.source][0])}, {NAMES[one.method]}"


def _bias_table(found: Sequence[Honesty]) -> list[str]:
    tasks = max((len(one.bias_after) for one in found), default=0)
    if not tasks:
        return []
    rows = [
        (_name(one), *("–" if value is None else f"{value.mean:+.1f}" for value in one.bias_after))
        for one in found
        if len(one.bias_after) == tasks
    ]
    header = ("recall − accuracy, points, after task", *map(str, range(1, tasks + 1)))
    return ["", *markdown_table(header, rows)]


def _bin_table(found: Sequence[Honesty]) -> list[str]:
    known = [one for one in found if one.n]
    parts = [{(part.low, part.high): part for part in binned(one.pairs)} for one in known]
    rows = []
    for low, high in BINS:
        own = [part.get((low, high)) for part in parts]
        found_there = ("–" if b is None else f"{b.recall:.1f} at {b.accuracy:.1f} ({b.pairs:,})" for b in own)
        rows.append((f"{low} to {high}", *found_there))
    header = ("test accuracy %: mean recall at mean accuracy (classes)", *map(_name, known))
    return ["", *markdown_table(header, rows)] if known else []


def _honesty_said(one: Honesty) -> str:
    if one.n < FEWEST or one.bias is None:
        return f"{_name(one)}: open, {counted(one.n, 'run')}."
    verdict = change_verdict(one.bias)
    word = {"better": "too high", "worse": "too low", "open": "without measurable bias"}[verdict]
    text = (
        f"{_name(one)}: recall is {word}, {cells.points(one.bias)}. It misses the test accuracy over all classes by"
        f" {with_interval(one.error, unit=' points')}; its 95 % interval covers that"
        f" {100 * one.covered / one.moments:.0f} % of the time."
    )
    if one.correlation is not None and one.honest_correlation is not None:
        text += (
            f" Class by class it correlates with the test accuracy by {with_interval(one.correlation)}, where"
            f" {one.honest_correlation.mean:.2f} is to be expected of an honest one that asks so little."
        )
    return text
