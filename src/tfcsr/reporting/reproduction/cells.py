"""What stands in the tables, for the page and for a terminal."""

from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import optional_estimate
from tfcsr.paper.audit import spread
from tfcsr.paper.published import PUBLISHED, SUMMARY, Target
from tfcsr.paper.reproduction import Line, Reproduction, verdict

QUANTITIES = {
    "final_accuracy": "final accuracy %",
    "memory_checks": "memory checks",
    "replay_batches": "replay batches",
    "epochs": "epochs",
}
LINE_HEADER = ("", "quantity", "published", "our mean", "s", "95 % interval", "n", "verdict")
OF_THE_PAPER = ("published", "verdict")  # there is none on other data


def line_cells(line: Line) -> tuple[str, ...]:
    """Label, quantity, published, mean, deviation, interval, n, verdict."""
    decimals = 2 if line.quantity == "final_accuracy" else 1
    found = line.estimate

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.{decimals}f}"

    interval = "–" if found is None or found.low is None else f"{number(found.low)} to {number(found.high)}"
    died = f", {line.collapsed} collapsed" if line.collapsed else ""
    return (
        line.label,
        QUANTITIES[line.quantity],
        number(line.published).removesuffix(".0"),
        number(None if found is None else found.mean),
        number(line.deviation),
        interval,
        f"{len(line.runs)}{died}",
        line.verdict or "–",
    )


def line_columns(study: Reproduction, target: Target) -> dict[str, list[str]]:
    """A target's table, column by column."""
    rows = [line_cells(line) for line in study.lines(target)]
    return {
        title: [row[place] for row in rows]
        for place, title in enumerate(LINE_HEADER)
        if study.data is None or title not in OF_THE_PAPER
    }


def choice_cells(study: Reproduction, target: Target) -> list[tuple[str, ...]]:
    """The header, and a row per setting."""
    rows = []
    for choice in study.choices(target.grids):
        grid = choice.grid
        ours = f"{choice.by_test:g}" if choice.complete else "–"
        judged = "open: no runs"
        if choice.complete:
            judged = "the same" if choice.by_test == grid.published else "another"
        tested = ", ".join(
            f"{value:g}: {choice.test_accuracy(value):.2f}" if choice.runs[value] else f"{value:g}: –"
            for value in grid.values
        )
        n = str(min(map(len, choice.runs.values())))
        where = grid.benchmark if study.data is None else f"{grid.benchmark.removeprefix('split-')} values"
        rows.append((where, grid.method, f"{grid.published:g}", ours, tested, n, judged))
    header = ("benchmark", "method", "published λ", "best by test", "final accuracy % by λ", "n", "verdict")
    if study.data is None:
        return [header, *rows]
    return [(*row[:2], *row[3:-1]) for row in (header, *rows)]


def summary_cells(study: Reproduction) -> list[tuple[str, ...]]:
    """Its header, and a row per method."""
    rows = []
    for row in SUMMARY:
        published, runs = PUBLISHED[row.published].curve[-1], study.of(row.arm)
        judged = verdict(published, [record.final_accuracy for record in runs.values()])
        cells = (row.benchmark, row.label, f"{published:.2f}", _mean(runs), judged, _mean(study.of(row.alike)))
        rows.append(cells)
    header = ("benchmark", "method", "published %", "ours, run as published % (n)", "verdict", "ours, all alike % (n)")
    return [header, *rows]


def _mean(runs: dict[int, Record]) -> str:
    mean = optional_estimate(record.final_accuracy for record in runs.values())
    died = sum(record.collapsed is not None for record in runs.values())
    return "–" if mean is None else f"{spread(mean)} ({len(runs)}{f', {died} collapsed' if died else ''})"
