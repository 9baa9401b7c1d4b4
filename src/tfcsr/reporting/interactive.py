"""Runs and comparisons as Python users call them: with a progress bar on request, and a result that shows itself."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tfcsr.experiments import compare as grid
from tfcsr.experiments import run as single
from tfcsr.experiments.compare import Comparison, Watcher
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Stop
from tfcsr.experiments.study import seed_numbers
from tfcsr.spec import RunSpec
from tfcsr.training.events import Listener


class ShownComparison(Comparison):
    """A comparison that a prompt shows as a table, and a notebook too."""

    def __repr__(self) -> str:
        from tfcsr.reporting.tables import as_text, comparison_notes, comparison_table

        return as_text(comparison_table(self), comparison_notes(self))

    def _repr_html_(self) -> str:
        from tfcsr.reporting.tables import as_html, comparison_notes, comparison_table

        return as_html(comparison_table(self), comparison_notes(self))


def run(
    spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None, *, progress: bool = False
) -> Result:
    """Train and evaluate as the spec says; with `spec.out`, keep spec, events, checkpoints and result in that folder.

    A folder in which this very spec is already complete gives its result at once; one in which it was begun goes on
    from its last checkpoint, to the same result. `listeners` get the run's events. `stop` is how to end it early.

    `progress` shows a bar on standard error; where that is no terminal, a line after each task.
    """
    with ExitStack() as stack:
        if progress:
            from rich.console import Console

            from tfcsr.experiments.machine import on_this_machine
            from tfcsr.reporting.progress import RunDisplay

            spec = on_this_machine(spec)
            listeners = [stack.enter_context(RunDisplay(spec, Console(stderr=True))), *listeners]
        return single.run(spec, listeners, stop)


def resume(
    folder: str | Path, listeners: Iterable[Listener] = (), stop: Stop | None = None, *, progress: bool = False
) -> Result:
    """Finish the run that was begun in this folder. The other arguments are those of `run`."""
    return run(RunFolder(folder).spec(), listeners, stop, progress=progress)


def compare(
    *,
    benchmark: str = "split-digits",
    methods: str | Sequence[str] = "all",
    seeds: int | Sequence[int] = 5,
    baseline: str | None = None,
    out: str | Path | None = None,
    workers: int = 0,
    equal_steps: bool = False,
    class_orders: int = 1,
    progress: bool = False,
    watcher: Watcher = lambda spec, news: None,
    stop: Stop | None = None,
    **spec_fields: Any,
) -> Comparison:
    """Run every method with every seed, but for what is already complete in `out`, and summarise. Runs that were begun
    there go on; those that another process is at work on are left to it.

    `seeds` is how many, or which; `baseline` is the method the others are paired with (er, if it takes part); `workers`
    how many runs go on at once (one per core; on a GPU, as many as fill it and fit its memory). Other arguments are
    spec fields for all runs.

    `equal_steps` gives every method the steps that plain training takes: a mixed batch uses half of the new examples it
    stands for, and `joint` takes no longer than the newest task alone. `class_orders` says how many orders of the
    classes the seeds share: with 1, all have the same, and intervals hold for that order.

    `progress` shows bars on standard error; where that is no terminal, a line after each run. `watcher` is called with
    the spec of a run and an event of it, its result, or the error that ended it. `print` shows the comparison as a
    table, and so does a notebook.
    """
    with ExitStack() as stack:
        watch = watcher
        if progress:
            from rich.console import Console

            from tfcsr.reporting.progress import ComparisonDisplay

            runs = len(grid.names_of(methods, equal_steps=equal_steps)) * len(seed_numbers(seeds))
            display = stack.enter_context(ComparisonDisplay(runs, Console(stderr=True)))

            def watch(spec: RunSpec, news: Any) -> None:
                display(spec, news)
                watcher(spec, news)

        found = grid.compare(
            benchmark=benchmark,
            methods=methods,
            seeds=seeds,
            baseline=baseline,
            out=out,
            workers=workers,
            equal_steps=equal_steps,
            class_orders=class_orders,
            watcher=watch,
            stop=stop,
            **spec_fields,
        )
    return ShownComparison(**vars(found))
