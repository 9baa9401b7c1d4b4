"""One run and a grid on a CPU, beside a bare loop. `python -m benchmarks.cpu`

The images are random, in MNIST's shape; the grid needs the real MNIST (`tfcsr data list`) and is left out without it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import tfcsr
from benchmarks.measure import Row, arguments, interleaved, ratio, seconds, show, summary
from benchmarks.training import Training
from tfcsr.data import sources
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.experiments.machine import cores, keep_freed_memory, on_this_machine
from tfcsr.spec import RunSpec
from tfcsr.training.loop import build_model

STEPS = 60


def random_mnist(data_dir: str | None) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 32 * STEPS // 2)
    x = rng.integers(0, 256, (len(y), 1, 28, 28), dtype=np.uint8)
    names = tuple(map(str, range(10)))
    return Dataset("random", x, y, x[::100], y[::100], names, 255.0, (0.1307,), (0.3081,))


BENCHMARKS.add("random-mnist")(Benchmark(random_mnist, 10, 5, {"epochs": 1000}))


class OurEpoch:
    """The epochs of a run as they are: the plan, the batches, the steps, the events."""

    def __init__(self, threads: int) -> None:
        spec = on_this_machine(RunSpec(benchmark="random-mnist", method="er", device="cpu", threads=threads))
        self.training = Training(spec, random_mnist(None))
        self.task = self.training.tasks.task(1)
        self.training.method.begin_task(self.task)
        self.training.steps.begin_task(self.task.train)
        self.training.model.train()

    def take(self) -> None:
        for _ in self.training._train_epoch(self.task, len(self.task.train)):
            pass


class BareLoop:
    """The same model on batches that lie ready as normalised floats; with or without our tricks."""

    def __init__(self, ours: OurEpoch, tricks: bool) -> None:
        self.model = build_model(ours.training.spec, (1, 28, 28), 10)
        format = torch.channels_last if tricks else torch.contiguous_format
        self.model = self.model.to(memory_format=format)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=tricks or None)
        views, train = ours.training.learner.views, ours.task.train
        order = torch.randperm(len(train)).repeat(2)[: 64 * STEPS]
        self.batches = [
            (views.normalised(train.x[part]).contiguous(memory_format=format), train.y[part])
            for part in order.split(64)
        ]

    def take(self) -> None:
        for x, y in self.batches:
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()


def one_run(threads: int, repetitions: int) -> list[Row]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    ours = OurEpoch(threads)
    works = {
        "bare loop": BareLoop(ours, False).take,
        "bare loop with our tricks": BareLoop(ours, True).take,
        "tfcsr": ours.take,
    }

    def ms(work: Callable[[], None]) -> Callable[[], float]:
        return lambda: 1000 * seconds(work) / STEPS

    subjects = {name: ms(work) for name, work in works.items()}
    interleaved(subjects, 1)
    found = interleaved(subjects, repetitions)
    torch.set_num_threads(before)
    where = f"{threads} thread{'s' if threads > 1 else ''}"
    rows: list[Row] = [{"what": f"{name}, {where}: ms a step", **summary(values)} for name, values in found.items()]
    for name in list(works)[:2]:
        rows.append({"what": f"{name} / tfcsr, {where}", **ratio(found[name], found["tfcsr"])})
    return rows


def grid(repetitions: int, runs: int, **fields: object) -> list[Row]:
    """The same runs one after another with one thread and with all, and as many single-threaded at once as there are
    cores. The last can beat the second only by what threads fall short of their number.
    """
    base = {"methods": "er", "seeds": runs, "device": "cpu", **fields}
    where = f"{runs} runs of {fields['benchmark']}"

    def take(**how: int) -> Callable[[], float]:
        return lambda: seconds(lambda: tfcsr.compare(**base, **how) and None)  # type: ignore[arg-type]

    subjects = {
        f"{where}, one after another with 1 thread": take(workers=1, threads=1),
        f"{where}, one after another with {cores()} threads": take(workers=1, threads=cores()),
        f"{where}, {cores()} processes with 1 thread": take(workers=cores(), threads=1),
    }
    found = interleaved(subjects, repetitions)
    single, threaded, many = found.values()
    rows: list[Row] = [{"what": f"{name}: s", **summary(values)} for name, values in found.items()]
    for name, values in (("1 thread", single), (f"{cores()} threads", threaded)):
        rows.append({"what": f"one after another with {name} / processes, {where}", **ratio(values, many)})
    return rows


def starting(repetitions: int) -> list[Row]:
    path = str(Path(tfcsr.__file__).parents[1])

    def command(*words: str) -> Callable[[], float]:
        def call() -> None:
            with tempfile.TemporaryDirectory() as folder:
                env = os.environ | {"PYTHONPATH": path}
                subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder, env=env)

        return lambda: seconds(call)

    found = interleaved(
        {
            "python alone": command("-c", ""),
            "import tfcsr": command("-c", "import tfcsr"),
            "tfcsr --help": command("-m", "tfcsr", "--help"),
            "tfcsr run --help": command("-m", "tfcsr", "run", "--help"),
        },
        repetitions,
    )
    return [{"what": f"{name}: s", **summary(values)} for name, values in found.items()]


def main() -> None:
    options = arguments(__doc__, repetitions=9)
    keep_freed_memory()  # as the command line does; the bare loops profit from it too
    rows = [*starting(options.repetitions)]
    for threads in sorted({1, cores()}):
        rows += one_run(threads, options.repetitions)
    rows += grid(max(1, options.repetitions // 3), 8, benchmark="split-digits")
    if sources.describe("mnist")[0] is not None:
        rows += grid(max(1, options.repetitions // 3), 4, benchmark="split-mnist", max_per_class=600, epochs=2)
    show("Split MNIST's network, batches of 64, on a CPU", rows, options.json)


if __name__ == "__main__":
    main()
