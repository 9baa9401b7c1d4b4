"""Runs and comparisons for Python users: a progress bar on request, and a result that prints as a table."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tfcsr.engines import Engine, Watcher
from tfcsr.experiments import compare as grid
from tfcsr.experiments import run as single
from tfcsr.experiments.compare import Comparison
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Stop
from tfcsr.experiments.study import seed_numbers
from tfcsr.spec import RunSpec
from tfcsr.training.events import Listener


class ShownComparison(Comparison):
    """A comparison that a prompt or a notebook shows as a table."""

    def __repr__(self) -> str:
        from tfcsr.reporting.tables import as_text, comparison_notes, comparison_table

        return as_text(comparison_table(self), comparison_notes(self))

    def _repr_html_(self) -> str:
        from tfcsr.reporting.tables import as_html, comparison_notes, comparison_table

        return as_html(comparison_table(self), comparison_notes(self))


def run(
    spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None, *, progress: bool = False
) -> Result:
    """Train and evaluate as the spec says. The folder `spec.out`, if given, keeps spec, events, checkpoints and result.

    If this very spec is already complete there, its result is returned at once. If it is unfinished, the run resumes
    from its last checkpoint, to the same result. `listeners` are callbacks: each gets the run's events. `stop` ends the
    run early.

    `progress` shows a bar on standard error, or a line after each task where that is no terminal.
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
    """Finish the unfinished run in this folder. The other arguments are those of `run`."""
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
    engine: str | Engine = "local",
    address: str | None = None,
    progress: bool = False,
    watcher: Watcher = lambda spec, update: None,
    stop: Stop | None = None,
    **spec_fields: Any,
) -> Comparison:
    """Run every method with every seed, and summarise. Runs that are complete in `out` are reused, unfinished ones
    resume. If another process is at work on a run, that run is left to it.

    `seeds` is a number of seeds, or a list of them. `baseline` is the method the others are paired with (er, if it
    takes part). `workers` is the number of runs at once (one per core; on a GPU, as many as fill it and fit its
    memory). Other arguments are spec fields for all runs.

    `equal_steps` gives every method the optimizer steps of plain training: a mixed batch uses half of the new examples
    it stands for, and `joint` takes as many steps as the newest task alone. `class_orders` is the number of class
    orders that the seeds share. With 1, all seeds have the same order, and intervals hold for that order.

    `engine` says where the runs are executed: `local`, on this machine, on all of its cores or GPUs; or `ray`, on the
    Ray cluster at `address` (`auto` or `HOST:PORT`; without one, on $RAY_ADDRESS or on this machine alone).

    `progress` shows bars on standard error, or a line after each run where that is no terminal. `watcher` is a
    callback: it gets a run's spec, and an event of the run, its result, or the error that ended it. `print` and
    notebooks show the comparison as a table.
    """
    with ExitStack() as stack:
        watch = watcher
        if progress:
            from rich.console import Console

            from tfcsr.reporting.progress import ComparisonDisplay

            names = grid.names_of(methods, {"benchmark": benchmark} | spec_fields, equal_steps=equal_steps)
            runs = len(names) * len(seed_numbers(seeds))
            display = stack.enter_context(ComparisonDisplay(runs, Console(stderr=True)))

            def watch(spec: RunSpec, update: Any) -> None:
                display(spec, update)
                watcher(spec, update)

        found = grid.compare(
            benchmark=benchmark,
            methods=methods,
            seeds=seeds,
            baseline=baseline,
            out=out,
            workers=workers,
            equal_steps=equal_steps,
            class_orders=class_orders,
            engine=engine,
            address=address,
            watcher=watch,
            stop=stop,
            **spec_fields,
        )
    return ShownComparison(**vars(found))
