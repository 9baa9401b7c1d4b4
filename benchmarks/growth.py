"""What must not grow in a thousand tasks: the time of a step, memory; and the buffer. `python -m benchmarks.growth`"""

import functools
import gc
import resource
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import Row, arguments, interleaved, ratio, seconds, show, summary
from benchmarks.training import Training
from tfcsr import fingerprint
from tfcsr.buffer.buffer import Buffer
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples
from tfcsr.experiments.machine import on_this_machine
from tfcsr.methods import METHODS
from tfcsr.methods.base import Mix
from tfcsr.spec import RunSpec
from tfcsr.training.batches import plan_epoch

STEPS = 100
EARLY = 20  # the task whose step the last one's is held against
PER_CLASS = 16
EXAMPLES = 1_000_000  # put into a buffer
BYTES = 1 << 30  # of data whose fingerprint is taken


def many_classes(classes: int) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), PER_CLASS)
    x = rng.integers(0, 256, (len(y), 1, 8, 8), dtype=np.uint8)
    names = tuple(map(str, range(classes)))
    return Dataset("many", x, y, x[::PER_CLASS], y[::PER_CLASS], names, 255.0, (0.5,), (0.29,))


def resident() -> float:
    """MiB in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


class Sequence:
    """A run that has come to a given task and stays there, to be timed."""

    def __init__(self, method: str, data: Dataset, task: int) -> None:
        # Training on all data so far would take a million steps; with one example a class it is some ten thousand.
        few = 1 if METHODS.get(method).sees_all_tasks else 0
        spec = on_this_machine(
            RunSpec(benchmark="many-tasks", method=method, device="cpu", threads=1, max_per_class=few)
        )
        self.training = Training(spec, data)
        self.turns = self.training.advance()
        while self.training.task_number < task:
            next(self.turns)
        (self.batches, *_) = plan_epoch(self.training.learner, 16, Mix(new=16, replay=0, stride=16))
        everything = self.training._training_data(self.training._task(task))
        some = torch.arange(16) % len(everything)
        self.training.steps.begin_task(Examples(everything.x[some], everything.y[some]))

    def ms(self) -> float:
        losses = torch.empty(1)

        def take() -> None:
            for _ in range(STEPS):
                for _ in self.training.steps.take(self.batches, losses):
                    pass

        return 1000 * seconds(take) / STEPS


def many_tasks(method: str, data: Dataset, repetitions: int) -> list[Row]:
    """The step of a run at an early task and at its last, in turns; memory on the way."""
    last = len(data.class_names)
    early = Sequence(method, data, EARLY)
    gc.collect()
    before = resident()
    late = Sequence(method, data, last)
    gc.collect()
    grown = resident() - before
    found = interleaved({"early": early.ms, "late": late.ms}, repetitions)
    return [
        {"what": f"{method}: step at task {last} / at task {EARLY}", **ratio(found["late"], found["early"])},
        {"what": f"{method}: MiB of a whole run of {last} tasks", "median": grown},
    ]


def reservoir(repetitions: int) -> Row:
    x, y = torch.zeros((EXAMPLES, 1, 1, 1), dtype=torch.uint8), torch.zeros(EXAMPLES, dtype=torch.int64)

    def fill() -> None:
        Buffer(10_000, (1, 1, 1)).add(x, y, torch.Generator().manual_seed(0))

    fill()
    return {
        "what": f"{EXAMPLES:,} examples into 10,000 slots: s",
        **summary([seconds(fill) for _ in range(repetitions)]),
    }


def fingerprints(repetitions: int) -> Row:
    data = np.zeros(BYTES, np.uint8)

    def take() -> None:
        fingerprint.of_arrays([data])

    taken = [seconds(take) for _ in range(min(5, repetitions))]
    return {"what": "the fingerprint of a gigabyte of data: s", **summary(taken)}


def draws(repetitions: int) -> list[Row]:
    subjects, rows = {}, []
    for capacity in (1_000, 100_000):
        buffer = Buffer(capacity, (1, 28, 28))
        buffer.add(
            torch.zeros((capacity, 1, 28, 28), dtype=torch.uint8),
            torch.arange(capacity) % 10,
            torch.Generator().manual_seed(0),
        )
        generator = torch.Generator().manual_seed(0)

        def probe_samples(buffer: Buffer = buffer, generator: torch.Generator = generator) -> None:
            for _ in range(STEPS):
                chosen = buffer.draw(1, 256, generator)[0]
                buffer.x[chosen], buffer.y[chosen]

        subjects[f"256 examples for a probe out of {capacity}: ms"] = functools.partial(seconds, probe_samples)
        whole = buffer.nbytes / (capacity * (784 + 8))
        rows.append({"what": f"buffer bytes / (capacity x bytes an example), {capacity}", "median": whole})
    found = interleaved(subjects, repetitions)
    return rows + [{"what": what, **summary([1000 * s / STEPS for s in taken])} for what, taken in found.items()]


def main() -> None:
    options = arguments(__doc__, {"tasks": EARLY}, repetitions=15, tasks=1000)
    data, settings = many_classes(options.tasks), {"epochs": 1, "batch_size": 16, "max_epochs": 1}
    BENCHMARKS.add("many-tasks")(
        Benchmark(lambda data_dir: data, options.tasks, options.tasks, settings | {"buffer_capacity": 200})
    )
    rows = [reservoir(options.repetitions), fingerprints(options.repetitions), *draws(options.repetitions)]
    torch.set_num_threads(1)
    for method in METHODS.names():
        rows += many_tasks(method, data, options.repetitions)
        show("growth", rows, options.json)


if __name__ == "__main__":
    main()
