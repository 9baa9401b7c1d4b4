"""What stands in the cells of the tables, and the sentences below them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfcsr.beyond.outcomes import Course, Outcome
from tfcsr.beyond.replay import Point
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.pages import with_interval
from tfcsr.reporting.words import counted

FEW = 3  # are listed
NO_RUNS = "No runs yet."
SAME = "not measurably different from"
DIED = "collapsed (one answer to every image); they are in the mean."


def points(difference: Estimate | None) -> str:
    return with_interval(difference, "+", " points", without="no pairs of runs")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def sides(found: Course) -> str:
    """After which tasks one is behind and ahead of the other, as far as it is measurable."""
    tasks = (("behind", found.behind), ("ahead", found.ahead))
    return ", and ".join(f"{side} after task {listed([str(n) for n in known])}" for side, known in tasks if known)


def difference(row: Outcome) -> str:
    """Its cell of a table: a dash for the one that the others are held against, and where there is no pair."""
    return with_interval(row.difference, "+", without="–")


def without_runs(rows: Iterable[Outcome]) -> list[str]:
    missing = [row.label for row in rows if row.n == 0]
    return [f"Without runs yet: {'; '.join(missing)}."] if missing else []


def collapsed(rows: Iterable[Outcome]) -> list[str]:
    return died((row.label, row) for row in rows)


def died(rows: Iterable[tuple[str, Outcome | Point]]) -> list[str]:
    """Which runs collapsed, each with the name that it has on the page."""
    found = [f"{row.collapsed} of {counted(row.n, 'run')} of {name}" for name, row in rows if row.collapsed]
    return [f"{listed(found)} {DIED}"] if found else []


def sentences(*parts: str | Iterable[str]) -> list[str]:
    """Sentences as a list, after an empty line."""
    said = [s for part in parts for s in ([part] if isinstance(part, str) else part) if s]
    return ["", *(f"- {sentence}" for sentence in said)] if said else []


def compared(difference: Estimate | None, better: str, worse: str) -> str:
    """How one stands to another: in these words, where the interval leaves 0 out."""
    return {"better": better, "worse": worse, "open": SAME}[change_verdict(difference)]


def verdict(row: Outcome) -> str:
    return change_verdict(row.difference) if row.n else "–"


def setting(study: Beyond, arm: str) -> str:
    spec = next(iter(study.specs(arm).values()))
    few = f"{spec.max_per_class:,} images a class, " if spec.max_per_class else ""
    return (
        f"{spec.benchmark}, {few}{spec.tasks} tasks of {spec.epochs} epochs, {spec.model},"
        f" memory {spec.buffer_capacity:,}"
    )


def missing(rows: Mapping[str, tuple[Sequence[str], int]]) -> list[str]:
    """What has no runs yet, by the method: a few by their names, many by their number, of so many."""
    return [
        f"Without runs yet: {name}, {'; '.join(labels) if len(labels) <= FEW else f'{len(labels)} of {of} rows'}."
        for name, (labels, of) in rows.items()
        if labels
    ]


def place(point: Point) -> str:
    return f"{percent(point.batches)} % ({point.label}): {points(point.difference)}"


def recipe(fields: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> str:
    """Its settings; only those that another has otherwise."""
    shown = {name: value for name, value in fields.items() if beside is None or value != beside[name]}
    return ", ".join(f"`{name} {value}`" for name, value in shown.items())


def mean_difference(row: Outcome) -> float:
    return 0.0 if row.difference is None else row.difference.mean
