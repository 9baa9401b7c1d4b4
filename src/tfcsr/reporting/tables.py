"""Results as tables for a terminal. Every number is shown whole, however narrow the terminal is."""

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from tfcsr.errors import counted, printable
from tfcsr.experiments.compare import Comparison
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.view import thinned
from tfcsr.reporting.words import in_scenario, no_interval


@dataclass(frozen=True)
class Column:
    """A title and a cell per row. `short` is the title where room is scarce; a column with a `rank` may be left out,
    the lowest first; one that is `leading` says what the rows are, so it is there wherever the others go.
    """

    title: str
    cells: Sequence[str]
    short: str = ""
    rank: int | None = None
    leading: bool = False
    text: bool = False
    bold: bool = False

    def titled(self, short: bool) -> "Column":
        return replace(self, title=self.short) if short and self.short else self

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.cells)))


# Full titles or short ones, and the cells between two columns: the first that fits is taken.
LAYOUTS = ((False, 2), (False, 1), (True, 1))
# Of a run that are shown in its table; more would not be read.
MOST_TASKS = 50
# So much of a name is left before any number has to go elsewhere.
SHORT_NAME = 16


def fit(columns: Sequence[Column], width: int) -> tuple[list[list[Column]], int, list[str]]:
    """How columns go into a width: as blocks to be put below each other, the cells between two columns, and what is
    left out. The only place that decides it.

    Columns move together first, then titles become short, then long names are cut, then columns are left out as they
    may be, then the rest is put below. Numbers are never cut; where one column is still too wide, its title is, then
    the names beside it.
    """

    def needed(columns: Sequence[Column], short: bool, gap: int) -> int:
        return sum(column.titled(short).width for column in columns) + gap * (len(columns) - 1)

    def cuttable(columns: Sequence[Column]) -> int:
        return sum(max(0, column.width - SHORT_NAME) for column in columns if column.text)

    chosen, left_out = list(columns), []
    for column in sorted((c for c in columns if c.rank is not None), key=lambda c: c.rank or 0):
        if needed(chosen, *LAYOUTS[-1]) - cuttable(chosen) > width:
            chosen.remove(column)
            left_out.append(column.title)
    short, gap = next((layout for layout in LAYOUTS if needed(chosen, *layout) <= width), LAYOUTS[-1])
    chosen = [column.titled(short) for column in chosen]
    for i, column in enumerate(chosen):
        excess = needed(chosen, short, gap) - width
        if excess > 0 and column.text and column.width > SHORT_NAME:
            chosen[i] = _cut(column, max(SHORT_NAME, column.width - excess))
    leading = [column for column in chosen if column.leading]
    blocks = [leading]
    for column in (c for c in chosen if not c.leading):
        if len(blocks[-1]) > len(leading) and needed([*blocks[-1], column], short, gap) > width:
            blocks.append(leading)
        blocks[-1] = [*blocks[-1], column]
    return [_within(block, needed(block, short, gap) - width) for block in blocks], gap, left_out


def _within(columns: list[Column], excess: int) -> list[Column]:
    """The same with so many cells less, as far as titles and then names can give them."""
    for whole in (False, True):
        for i, column in enumerate(columns):
            least = 4 if whole and column.text else max(1, *map(cell_len, column.cells))
            if excess > 0 and column.width > least:
                width = max(least, column.width - excess)
                excess -= column.width - width
                columns = [*columns[:i], _cut(column, width), *columns[i + 1 :]]
    return columns


def _cut(column: Column, width: int) -> Column:
    def shown(text: str) -> str:
        return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"

    return replace(column, title=shown(column.title), cells=[shown(cell) for cell in column.cells])


@dataclass(frozen=True)
class FittingTable:
    """A table that takes its shape when it is printed: as the width there allows."""

    title: str
    columns: Sequence[Column]
    notes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        blocks, gap, left_out = fit(self.columns, options.max_width)
        yield Text(self.title, style="italic")
        for block in blocks:
            yield Text()
            yield _drawn(block, gap)
        notes = list(self.notes)
        if left_out:
            notes.append(f"no room for: {', '.join(left_out)}")
        yield Text("\n".join(["", *notes]))


def _drawn(columns: Sequence[Column], gap: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="left" if column.text else "right",
            style="bold" if column.bold else None,
            no_wrap=True,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def as_text(table: FittingTable, notes: Sequence[str] = ()) -> str:
    """As it would be printed on the terminal there is, or in 80 columns, without colours."""
    console = Console(file=io.StringIO(), color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        console.print(replace(table, notes=[*table.notes, *notes]))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def as_html(table: FittingTable, notes: Sequence[str] = ()) -> str:
    """For a notebook: all columns, in its own colours and fonts. A notebook has room, and scrolls."""

    def cell(kind: str, column: Column, text: str) -> str:
        side = "left" if column.text else "right"
        return f'<{kind} style="text-align:{side};padding:0 .5em">{html.escape(text)}</{kind}>'

    rows = [f"<tr>{''.join(cell('th', column, column.title) for column in table.columns)}</tr>"]
    for i in range(len(table.columns[0].cells)):
        rows.append(f"<tr>{''.join(cell('td', column, column.cells[i]) for column in table.columns)}</tr>")
    below = "".join(f"<div>{html.escape(note)}</div>" for note in (*table.notes, *notes))
    caption = f'<caption style="text-align:left">{html.escape(table.title)}</caption>'
    return f"<div><table>{caption}<thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>{below}</div>"


def run_table(result: Result) -> FittingTable:
    """Accuracy on each task after each task that was evaluated, and over all classes seen; of many tasks, on some."""
    spec, evaluated = result.spec, result.evaluated
    tasks = [evaluated[i] for i in thinned(len(evaluated), MOST_TASKS)]
    rows = {task: row for task in tasks if (row := result.accuracy_matrix[task - 1]) is not None}
    columns = [
        Column("after task", [str(task) for task in tasks], short="after", leading=True),
        Column("epochs", [str(result.epochs_per_task[task - 1]) for task in tasks]),
    ]
    for task in tasks:
        cells = [f"{row[task - 1]:5.1f}" if task <= after else "" for after, row in rows.items()]
        columns.append(Column(f"task {task}", cells, short=f"t{task}"))
    seen = [f"{result.accuracy_after_task[task - 1]:.2f}" for task in tasks]
    columns.append(Column("all seen", seen, short="all", bold=True))
    title = f"{spec['method']} on {spec['benchmark']}, seed {spec['seed']}: accuracy in % on each task"
    notes = []
    if len(evaluated) < len(result.accuracy_matrix):
        notes.append(f"evaluated after {len(evaluated)} of {len(result.accuracy_matrix)} tasks")
    if len(tasks) < len(evaluated):
        notes.append(f"{len(tasks)} of {len(evaluated)} evaluations are shown: result.json has all")
    return FittingTable(printable(title), columns, notes)


def run_summary(result: Result) -> list[str]:
    replays = counted(result.replay_batches, "replay batch", "replay batches")
    lines = [
        f"final accuracy {result.final_accuracy:.2f} %, forgetting {_points(result.forgetting)},"
        f" backward transfer {_points(result.backward_transfer)}",
        f"{counted(result.optimizer_steps, 'step')}, {replays}, {counted(result.memory_checks, 'memory check')},"
        f" buffer {result.buffer_bytes / 1024:.1f} KiB, {result.seconds:.1f} s",
    ]
    if result.collapsed is not None:
        lines.append(f"the network died in task {result.collapsed}: it gives the same answer to every image")
    return lines


def comparison_table(comparison: Comparison) -> FittingTable:
    """A row per method. The least important columns go first where there is no room for all."""
    rows = comparison.methods
    spread = " ± 95 % interval" if any(row.final_accuracy.half_width is not None for row in rows) else ""
    columns = [
        Column("method", [printable(row.method) for row in rows], leading=True, text=True, bold=True),
        Column("n", [str(row.n) for row in rows]),
        Column("accuracy %", [_interval(row.final_accuracy) for row in rows]),
        Column(
            f"vs {printable(comparison.baseline)}",
            ["" if row.difference is None else _interval(row.difference, sign="+") for row in rows],
        ),
        Column(
            "forgetting",
            ["" if row.forgetting is None else f"{row.forgetting.mean:.2f}" for row in rows],
            short="forgot",
            rank=5,
        ),
        Column("steps", [f"{row.optimizer_steps:.0f}" for row in rows], rank=6),
        Column("samples", [f"{row.samples_seen:.0f}" for row in rows], rank=3),
        Column("replays", [f"{row.replay_batches:.0f}" for row in rows], rank=4),
        Column("checks", [f"{row.memory_checks:.0f}" for row in rows], rank=2),
        Column("seconds", [f"{row.seconds:.1f}" for row in rows], short="s", rank=1),
    ]
    specs = [result.spec for result in comparison.results]
    title = f"{printable(comparison.benchmark)}{in_scenario(specs)}: final accuracy, mean{spread}, paired differences"
    return FittingTable(title, columns, _without_interval(comparison))


def comparison_notes(comparison: Comparison) -> list[str]:
    """What the means alone would hide."""
    notes = [
        f"{row.collapsed} of {counted(row.n, 'run')} of {row.method} collapsed: the network answers the same to every"
        " image"
        for row in comparison.methods
        if row.collapsed
    ]
    notes += [f"{name} failed: {error}" for name, error in comparison.errors.items()]
    # Said where it is usual, too: a reader of the table cannot know.
    orders = {str(result.spec["class_order"]) for result in comparison.results}
    if len(orders) == 1 and any(row.final_accuracy.half_width is not None for row in comparison.methods):
        order = orders.pop()
        what = f"class order {order}" if order.isdecimal() else "one class order"
        notes += [f"all seeds share {what}: intervals hold for it (--class-orders varies it)"]
    return [printable(note) for note in notes]


def _without_interval(comparison: Comparison) -> list[str]:
    """Said once where it holds for all, else of those it holds for."""
    rows = comparison.methods
    few = {row.method: row.n for row in rows if row.final_accuracy.half_width is None}
    if len(few) == len(rows) and len(set(few.values())) == 1:
        return [no_interval(rows[0].n)]
    for row in rows:
        if row.difference is not None and row.difference.half_width is None and row.method not in few:
            few[f"{row.method} vs {comparison.baseline}"] = row.difference.n
    return [printable(f"{name}: {no_interval(n)}") for name, n in few.items()]


def _points(value: float | None) -> str:
    """What needs an evaluation before the last."""
    return "undefined with one evaluation" if value is None else f"{value:.2f} points"


def _interval(value: Estimate, sign: str = "") -> str:
    spread = "" if value.half_width is None else f" ±{value.half_width:.2f}"
    return f"{value.mean:{sign}.2f}{spread}"
