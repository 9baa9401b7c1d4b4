"""What the data say, in plain words and no more of them than the data carry."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from tfcsr.data.benchmarks.base import SCENARIOS
from tfcsr.errors import counted as counted
from tfcsr.experiments.reading import Outlook
from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.series import Group, Series, shown

MOST_NAMED = 6  # of the series in one sentence


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def fitting(parts: Sequence[str], width: int, separator: str = " · ") -> str:
    """As many of the parts as one line has room for, the first ones first. The first is there in any case."""
    line = parts[0] if parts else ""
    for part in parts[1:]:
        if len(line) + len(separator) + len(part) > width:
            break
        line += separator + part
    return line


def shortened(text: str, width: int) -> str:
    """A name in at most so many cells. Nothing that holds a number is shortened."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def rough_time(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def headline(counts: dict[str, int], outlook: Outlook) -> str:
    """How many runs there are, by their state and with those that are planned, and how long they need."""
    total = sum(counts.values()) + outlook.waiting
    if not total:
        return "No run yet: this page waits for the first."
    states = [f"{n:,} {state}" for state, n in reversed(counts.items())]
    states += [f"{outlook.waiting:,} to come"] if outlook.waiting else []
    text = f"{counted(total, 'run')}: {', '.join(states)}."
    if outlook.seconds is None:
        return text
    what = "What is left" if outlook.waiting else "What is under way"
    return f"{text} {what} needs about {rough_time(max(1, outlook.seconds))} more."


def in_scenario(specs: Sequence[Mapping[str, Any]]) -> str:
    """Which scenario all these runs were in, where it is another than `class`."""
    found = {spec.get("scenario", "class") for spec in specs}
    only = found.pop() if len(found) == 1 else "class"
    return f", scenario {only}" if only in SCENARIOS and only != "class" else ""


def no_interval(n: int) -> str:
    """What stands where fewer seeds were run than an interval takes."""
    return f"n {n}, no interval"


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def compared(group: Group) -> str:
    """What was compared, in one sentence."""
    complete = sum(len(one.results()) for one in group.series)
    others = sum(len(one.runs) for one in group.series) - complete
    numbers = sorted({len(one.results()) for one in group.series if one.results()})
    seeds = ""
    if numbers:
        many = counted(numbers[0], "seed") if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} seeds"
        seeds = f", {many} each" if len(group.series) > 1 else f", {many}"
    classes = max((len({*chain(*run.classes)}) for one in group.series for run in one.runs), default=0)
    split = f" with {counted(classes, 'class', 'classes')} in all" if classes else ""
    scenario = in_scenario([run.spec for one in group.series for run in one.runs])
    runs = counted(complete, "complete run") + (f", {others} not complete" if others else "")
    what = f"{group.name}{scenario}: {counted(group.tasks, 'task')}{split}{seeds}"
    return f"{_listed(group.series)} learned {what} ({runs})."


def found(group: Group) -> str:
    """What the paired differences say, in one sentence and no more of it than the intervals carry."""
    if not any(one.results() for one in group.series):
        return "No run is complete, so there is no final accuracy to speak of."
    paired = [(one, difference) for one in group.series if (difference := one.difference()) is not None]
    if not paired:
        return "Nothing here has a reference with a complete run of the same seed, so no difference is given."
    same = [one for one, _ in paired if one.same_weights()]
    others = [(one, d) for one, d in paired if not one.same_weights()]
    few = [one for one, d in others if d.low is None]
    clear = [(one, d) for one, d in others if d.low is not None and d.high is not None and not d.low <= 0 <= d.high]
    unclear = [(one, d) for one, d in others if d.low is not None and d.high is not None and d.low <= 0 <= d.high]
    parts = []
    if clear:
        parts.append(f"a difference was found for {_listed(*zip(*clear, strict=True))}")
    if unclear:
        what = "none" if clear else "no difference"
        parts.append(f"{what} was found for {_listed(*zip(*unclear, strict=True))}")
    if same:
        ends = "ends" if len(same) == 1 else "end"
        parts.append(f"{_listed(same)} {ends} with its weights, bit for bit")
    if few:
        parts.append(f"too few seeds are shared to decide about {_listed(few)}")
    references = {one.against.label for one, _ in paired if one.against is not None}
    whom = f"Against {references.pop()}" if len(references) == 1 else "Each against its own reference"
    return f"{whom}, in points and seed by seed, {'; '.join(parts)}."


def _listed(series: Sequence[Series], differences: Sequence[Estimate] = ()) -> str:
    names = [one.label for one in series]
    if differences:
        names = [f"{name} ({signed(d.mean)})" for name, d in zip(names, differences, strict=True)]
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    # A label may hold commas of its own.
    separator = "; " if any("," in name for name in names) else ", "
    return names[0] if len(names) == 1 else f"{separator.join(names[:-1])} and {names[-1]}"


def beware(group: Group) -> list[str]:
    """What the means alone would hide."""
    notes = [
        f"{one.collapsed()} of {counted(len(one.results()), 'run')} of {one.label} collapsed: the network gives one"
        " answer to every image. They stay in the mean."
        for one in group.series
        if one.collapsed()
    ]
    tested = sum(1 for one in group.series if (d := one.difference()) and d.low is not None and not one.same_weights())
    if tested > 1:
        notes.append(f"The {tested} paired intervals are 95 % each, not corrected for being {tested}.")
    for method in dict.fromkeys(one.method for one in group.series if one.upper_bound):
        notes.append(f"{method} keeps all data: an upper bound, not a competitor.")
    for every in sorted({every for one in group.series if type(every := one.spec.get("evaluate_every")) is int} - {1}):
        who = ", ".join(one.label for one in group.series if one.spec.get("evaluate_every") == every)
        notes.append(f"{who}: evaluated after every {every} tasks only, and forgetting is counted from those.")
    if repeated := sum(one.repeated for one in group.series):
        holds = "folder holds" if repeated == 1 else "folders hold"
        notes.append(f"{repeated} {holds} a run that is here already; it counts once.")
    orders = {shown(run.spec.get("class_order")) for one in group.series for run in one.runs}
    if len(orders) == 1 and any((a := one.accuracy()) and a.low is not None for one in group.series):
        (order,) = orders
        what = f"class order {order}" if order.isdecimal() else "one class order"
        notes.append(f"All seeds share {what}: the intervals hold for it.")
    return notes
