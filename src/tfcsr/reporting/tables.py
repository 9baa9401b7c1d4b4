"""Results as tables for a terminal."""

from rich import box
from rich.table import Table
from rich.text import Text

from tfcsr.errors import printable
from tfcsr.experiments.compare import Comparison
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import Estimate


def run_table(result: Result) -> Table:
    """Accuracy on each task after each task, and over all classes seen."""
    spec = result.spec
    title = printable(f"{spec['method']} on {spec['benchmark']}, seed {spec['seed']}: accuracy in %")
    table = Table(title=Text(title))
    table.add_column("after task", justify="right")
    table.add_column("epochs", justify="right")
    for task in range(1, len(result.accuracy_matrix) + 1):
        table.add_column(f"task {task}", justify="right")
    table.add_column("all seen", justify="right", style="bold")
    for i, row in enumerate(result.accuracy_matrix):
        shown = [f"{value:.1f}" if j <= i else "" for j, value in enumerate(row)]
        table.add_row(str(i + 1), str(result.epochs_per_task[i]), *shown, f"{result.accuracy_after_task[i]:.2f}")
    return table


def run_summary(result: Result) -> list[str]:
    lines = [
        f"final accuracy {result.final_accuracy:.2f} %, forgetting {_points(result.forgetting)},"
        f" backward transfer {_points(result.backward_transfer)}",
        f"{result.optimizer_steps} steps, {result.replay_batches} replay batches, {result.memory_checks} memory checks,"
        f" buffer {result.buffer_bytes / 1024:.1f} KiB, {result.seconds:.1f} s",
    ]
    if result.collapsed is not None:
        lines.append(f"the network died in task {result.collapsed}: it gives the same answer to every image")
    return lines


def comparison_table(comparison: Comparison) -> Table:
    title = f"{printable(comparison.benchmark)}: final accuracy, mean ± 95 % interval, paired differences"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left")
    columns = (
        "n",
        "accuracy %",
        Text(f"vs {printable(comparison.baseline)}"),
        "forgot",
        "replays",
        "checks",
        "s",
    )
    table.add_column("method", style="bold", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in comparison.methods:
        table.add_row(
            Text(printable(row.method)),
            str(row.n),
            _interval(row.final_accuracy),
            "" if row.difference is None else _interval(row.difference, sign="+"),
            "" if row.forgetting is None else f"{row.forgetting.mean:.2f}",
            f"{row.replay_batches:.0f}",
            f"{row.memory_checks:.0f}",
            f"{row.seconds:.1f}",
        )
    return table


def comparison_notes(comparison: Comparison) -> list[str]:
    """What the means alone would hide."""
    notes = [
        f"{row.collapsed} of {row.n} runs of {row.method} collapsed: the network answers the same to every image"
        for row in comparison.methods
        if row.collapsed
    ]
    notes += [f"{name} failed: {error}" for name, error in comparison.errors.items()]
    return [printable(note) for note in notes]


def _points(value: float | None) -> str:
    return "undefined with one task" if value is None else f"{value:.2f} points"


def _interval(value: Estimate, sign: str = "") -> str:
    spread = "" if value.half_width is None else f" ±{value.half_width:.2f}"
    return f"{value.mean:{sign}.2f}{spread}"
