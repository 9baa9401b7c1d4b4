"""What the pages of a study have in common: tables, means with their intervals, and how the runs were made."""

from collections.abc import Iterable, Sequence
from typing import Literal

from tfcsr.errors import printable
from tfcsr.experiments.record import Records
from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.progress import clock


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def bound(point: Estimate, end: Literal["low", "high"]) -> float:
    """An end of the interval; the mean, where there is none."""
    value: float | None = getattr(point, end)
    return point.mean if value is None else value


def with_interval(
    found: Estimate | None, sign: Literal["", "+"] = "", unit: str = "", *, decimals: int = 2, without: str = "no runs"
) -> str:
    """Mean ± half the 95 % interval and n; that there is no interval, or nothing at all, is said."""
    if found is None:
        return without
    mean = f"{found.mean:{sign}.{decimals}f}"
    if found.half_width is not None:
        return f"{mean} ± {found.half_width:.{decimals}f}{unit} (n {found.n})"
    return f"{mean}{unit} (n {found.n})" if found.n == 1 else f"{mean}{unit} (n {found.n}, no interval)"


def session_lines(records: Records) -> list[str]:
    """Which command, when, on which machine, how many runs, how long."""
    machines = []
    for session in records.sessions:
        machine = session["machine"]
        where = machine.get("gpu") or f"{machine.get('cores') or '?'} cores, {machine.get('processor') or 'unknown'}"
        cells = (f"`{session['command']}`", session["date"], str(where), str(machine.get("torch") or "–"))
        machines.append((*map(printable, cells), str(session["runs"]), clock(session["seconds"])))
    header = ("command", "date", "machine", "torch", "runs", "time")
    return markdown_table(header, machines) if machines else ["No session is recorded."]
