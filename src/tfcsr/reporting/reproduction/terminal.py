"""The reproduction in a terminal: the tables asked for, and what they come to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfcsr.paper.audit import audit
from tfcsr.paper.published import TARGETS, Target
from tfcsr.paper.reproduction import Line, Reproduction
from tfcsr.reporting.reproduction.cells import OF_THE_PAPER, choice_cells, line_cells, summary_cells
from tfcsr.reporting.reproduction.page import claim_lines
from tfcsr.reporting.tables import Column, FittingTable
from tfcsr.reporting.words import counted, no_interval

SHORT = {"final_accuracy": "accuracy %", "memory_checks": "checks", "replay_batches": "replays", "epochs": "epochs"}


def tables(study: Reproduction) -> Iterable[FittingTable]:
    """For a terminal: the table of each target asked for; of all of them together, the main one."""
    if study.whole and study.data is None:
        yield _table("The paper, again", *summary_cells(study))
        return
    for name in study.targets:
        if name != "audit":
            target = TARGETS[name]
            choices = target.kind == "choices"
            yield _table(study.title(target), *choice_cells(study, target)) if choices else _lines_table(study, target)


def _table(title: str, header: Sequence[str], *rows: Sequence[str]) -> FittingTable:
    """The first two columns say what a row is."""
    ranks = {"final accuracy % by λ": 1}
    columns = [
        Column(heading, [row[i] for row in rows], rank=ranks.get(heading), leading=i < 2, text=i < 2)
        for i, heading in enumerate(header)
    ]
    return FittingTable(title, columns)


def _lines_table(study: Reproduction, target: Target) -> FittingTable:
    """A target's lines; what they are of is said once where it is one thing."""
    lines = study.lines(target)
    cells = [line_cells(line) for line in lines]
    shown = list(dict.fromkeys(line.quantity for line in lines))
    columns = [Column("", [row[0] for row in cells], leading=True, text=True)]
    if len(shown) > 1:
        columns.append(Column("quantity", [SHORT[line.quantity] for line in lines], leading=True, text=True))
    ours = [
        row[3] + ("" if line.estimate is None or line.estimate.half_width is None else f" ±{_half(line)}")
        for line, row in zip(lines, cells, strict=True)
    ]
    unit = " %" if shown == ["final_accuracy"] else ""
    interval = any("±" in cell for cell in ours)
    columns += [
        Column(f"published{unit}", [row[2] for row in cells]),
        Column(f"ours{unit}" + (" ± 95 %" if interval else ""), ours),
        Column("n", [row[6] for row in cells]),
        Column("verdict", [row[7] for row in cells], text=True),
    ]
    if study.data is not None:
        columns = [column for column in columns if not column.title.startswith(OF_THE_PAPER)]
    title = study.title(target)
    if unit and "accuracy" not in title:
        title += ", final accuracy"
    few = sorted({len(line.runs) for line in lines if line.runs})
    return FittingTable(title, columns, [] if interval or not few else [", ".join(map(no_interval, few)), ""])


def _half(line: Line) -> str:
    found = line.estimate
    half = 0.0 if found is None or found.half_width is None else found.half_width
    return f"{half:.2f}" if line.quantity == "final_accuracy" else f"{half:.1f}"


def outcome_lines(study: Reproduction, pages: Sequence[Path]) -> Iterable[str]:
    """For a terminal: the audit's answers, the verdicts in number, what is left to run, and where to look."""
    if study.targets == ["audit"]:
        for number, finding in enumerate(audit(study), start=1):
            said = finding.said or ["Not enough runs yet."]
            yield study.on_its_data(f"{number}. {finding.title} {' '.join(said)}")
    if study.whole and study.data is None:
        yield from claim_lines(study)
    else:
        lines = [line for name in study.targets if name != "audit" for line in study.lines(TARGETS[name])]
        judged = Counter(line.verdict.partition(":")[0] for line in lines if line.published is not None)
        if judged:
            yield "published values: " + ", ".join(f"{count} {word}" for word, count in sorted(judged.items()))
    if missing := len(study.missing()):
        yield f"{counted(missing, 'run')} still to be made: the same command goes on"
    figures = len([page for page in pages if page.suffix != ".md"])
    yield f"{pages[-1]}" + (f", {counted(figures, 'figure file')} beside it" if figures else "")
