"""What the data say, in plain words and no more of them than the data carry."""

from collections.abc import Callable, Sequence
from typing import Any

from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.series import Group, Series

MOST_SAID = 12


def counted(number: int, thing: str, things: str = "") -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or thing + 's'}"


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


def no_interval(n: int) -> str:
    """What stands where fewer seeds were run than an interval takes."""
    return f"n {n}, no interval"


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def summary(group: Group) -> dict[str, Any]:
    """What was compared, what was found of each (final accuracy, its 95 % interval, its difference to the baseline seed
    by seed), and what to beware of.
    """
    found = [_found(one) for one in group.series if one.results()]
    if len(found) > MOST_SAID:
        found = [*found[:MOST_SAID], (f"{len(found) - MOST_SAID} more", "are in the table of final accuracy.")]
    if not found:
        found = [("Nothing yet:", "no run is complete, so there is no final accuracy to speak of.")]
    return {"compared": _compared(group), "found": found, "beware": _beware(group)}


def _compared(group: Group) -> str:
    complete = sum(len(one.results()) for one in group.series)
    others = sum(len(one.runs) for one in group.series) - complete
    numbers = sorted({len(one.results()) for one in group.series if one.results()})
    seeds = f", {counted(numbers[0], 'seed')} each" if len(numbers) == 1 else ""
    if len(numbers) > 1:
        seeds = f", {numbers[0]} to {numbers[-1]} seeds each"
    classes = max((sum(map(len, run.classes)) for one in group.series for run in one.runs), default=0)
    split = f" with {classes} classes in all" if classes else ""
    text = (
        f"{_list([one.label for one in group.series])} on {group.name}: {counted(group.tasks, 'task')}, one after the"
        f" other,{split}{seeds}. {counted(complete, 'complete run')}"
    )
    text += f", {others} not complete." if others else "."
    return (
        f"{text} Below, the accuracy over all classes in the end: mean and 95 % interval over seeds."
        if complete
        else text
    )


def _found(one: Series) -> tuple[str, str]:
    """Its name, and what is known of it."""
    accuracy, difference = one.accuracy(), one.difference()
    assert accuracy is not None
    text = f"{accuracy.mean:.2f} % {_interval(accuracy, '{:.2f}'.format)}."
    if difference is None or one.against is None:
        return one.label, text
    other = one.against.label
    if same := one.same_weights():
        return one.label, f"{text} Bit-identical weights to {other} with {_every(same)}: the same network."
    by = f"{signed(difference.mean)} points"
    if difference.low is None or difference.high is None:
        return one.label, f"{text} {by} to {other} with {_shared(difference.n)}, which decides nothing."
    interval = _interval(difference, signed)
    if difference.low > 0 or difference.high < 0:
        return one.label, f"{text} Differs from {other} by {by} {interval}."
    return one.label, f"{text} No difference to {other} was found: {by} {interval}."


def _interval(value: Estimate, number: Callable[[float], str]) -> str:
    if value.low is None or value.high is None:
        return f"({no_interval(value.n)})"
    return f"({number(value.low)} to {number(value.high)}, n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value.n})"


def _shared(seeds: int) -> str:
    return "the one seed they share" if seeds == 1 else f"the {counted(seeds, 'seed')} they share"


def _every(seeds: int) -> str:
    return _shared(seeds) if seeds == 1 else f"each of {seeds} seeds"


def _beware(group: Group) -> list[str]:
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
    if repeated := sum(one.repeated for one in group.series):
        holds = "folder holds" if repeated == 1 else "folders hold"
        notes.append(f"{repeated} {holds} a run that is here already; it counts once.")
    return notes


def _list(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} alone"
    if len(names) > 12:
        return f"{len(names)} settings ({'; '.join(names[:4])}; …)"
    separator = "; " if any("," in name for name in names) else ", "
    return f"{separator.join(names[:-1])} and {names[-1]}"
