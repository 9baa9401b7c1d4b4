"""This machine: a process per core, or the runs side by side on each of its GPUs."""

import functools
import warnings
from collections.abc import Sequence

from tfcsr.engines import Engine, Watcher, alike, needed_plugins
from tfcsr.engines.pool import run_in_processes
from tfcsr.errors import TfcsrWarning
from tfcsr.experiments.machine import cores, gpus, on_this_machine, settings
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.run import advance
from tfcsr.experiments.stop import Stop
from tfcsr.experiments.together import run_together
from tfcsr.spec import RunSpec


class Local(Engine):
    def __init__(self, workers: int = 0) -> None:
        super().__init__(workers)
        self.plugins: list[str] | None = []

    def close(self) -> None:
        """Its processes end with their runs."""

    def fitted(self, spec: RunSpec, threads: int = 0) -> RunSpec:
        return on_this_machine(spec, threads)

    def prepare(self, specs: list[RunSpec]) -> int:
        groups = alike(specs)
        elsewhere = [s for group in groups if self._in_processes(group) for s in group]
        self.plugins, problem = needed_plugins(elsewhere)
        if problem:
            self.plugins = None
            warnings.warn(f"the runs go on one after another in this process: {problem}", TfcsrWarning, stacklevel=5)
        return max(self._at_once(group) for group in groups)

    def run(self, specs: list[RunSpec], watcher: Watcher, stop: Stop, origins: Origins) -> None:
        for group in alike(specs):
            self._run(group, watcher, stop)

    def _run(self, specs: list[RunSpec], watcher: Watcher, stop: Stop) -> None:
        """On a GPU side by side in this process; on several, or on a CPU, in processes of their own; or here where
        those would not do.
        """
        at_once = self._at_once(specs)
        if self.plugins is not None and self._in_processes(specs):
            cards = shares(gpus(), at_once) if specs[0].device != "cpu" else []
            run_in_processes(specs, at_once, lambda i, update: watcher(specs[i], update), stop, self.plugins, cards)
            return
        with settings(specs[0]):
            run_together(
                specs,
                lambda i: advance(specs[i], [functools.partial(watcher, specs[i])], stop),
                lambda i, update: watcher(specs[i], update),
                at_once=at_once,
            )

    def _at_once(self, specs: list[RunSpec]) -> int:
        """How many of these run at once; 0 where GPU memory decides."""
        if specs[0].device != "cpu":
            return self.workers
        # Without processes of their own they would only take each other's time.
        if self.plugins is None:
            return 1
        return min(len(specs), self.workers or max(1, cores() // specs[0].threads))

    def _in_processes(self, specs: list[RunSpec]) -> bool:
        if specs[0].device == "cpu":
            return min(len(specs), self.workers or max(1, cores() // specs[0].threads)) > 1
        # One GPU is shared best within one process. A device with a number is the only one that is wanted.
        return bool(specs[0].device == "cuda" and min(len(specs), self.workers or len(specs), len(gpus())) > 1)


def shares(names: Sequence[str], at_once: int) -> list[tuple[str, int]]:
    """The GPUs that are used, and how many runs each has at once; 0: as many as fit."""
    if at_once == 0:
        return [(name, 0) for name in names]
    each, rest = divmod(at_once, len(names))
    counts = [each + (place < rest) for place in range(len(names))]
    return [(name, count) for name, count in zip(names, counts, strict=True) if count]
