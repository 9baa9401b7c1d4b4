"""What must not grow in a thousand tasks: the time of a step, memory; and the buffer. `python -m benchmarks.growth`"""

import gc
import resource
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import Row, arguments, seconds, show, summary
from tfcsr.buffer.buffer import Buffer
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.experiments.machine import on_this_machine
from tfcsr.methods import METHODS
from tfcsr.spec import RunSpec
from tfcsr.training.loop import Training

TASKS = 1000
PER_CLASS = 32


def many_classes(data_dir: str | None) -> Dataset:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(TASKS), PER_CLASS)
    x = rng.integers(0, 256, (len(y), 1, 8, 8), dtype=np.uint8)
    names = tuple(map(str, range(TASKS)))
    return Dataset("many", x, y, x[::PER_CLASS], y[::PER_CLASS], names, 255.0, (0.5,), (0.29,))


BENCHMARKS.add("many-tasks")(
    Benchmark(many_classes, TASKS, TASKS, {"epochs": 2, "batch_size": 16, "buffer_capacity": 200, "max_epochs": 2})
)


def resident() -> float:
    """MiB in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def thousand_tasks(method: str) -> Row:
    """Median step of fifty early tasks and of the last fifty; memory after 100 tasks and after all."""
    # Training on all data so far would take two million steps; with two examples a class it is a hundred thousand.
    few = 2 if METHODS.get(method).sees_all_tasks else 0
    spec = on_this_machine(RunSpec(benchmark="many-tasks", method=method, device="cpu", threads=1, max_per_class=few))
    training = Training(spec, many_classes(None))
    steps: dict[int, list[float]] = {}
    step, memory = training.steps.step, {}

    def timed(*batch: object) -> torch.Tensor:
        started = time.perf_counter()
        loss = step(*batch)
        steps.setdefault(training.task_number, []).append(time.perf_counter() - started)
        return loss

    training.steps.step = timed  # type: ignore[assignment]
    turns, seen = training.advance(), 0
    for _ in turns:
        if training.task_number != seen and training.task_number in (100, TASKS):
            gc.collect()
            memory[training.task_number] = resident()
        seen = training.task_number

    def middle(tasks: range) -> float:
        return 1000 * statistics.median(value for task in tasks for value in steps.get(task, []))

    first, last = middle(range(20, 70)), middle(range(TASKS - 49, TASKS + 1))
    return {
        "what": f"{method}: ms a step, tasks 20-69 / last 50 / growth; MiB after 100 / {TASKS} tasks",
        "median": f"{first:.3f} / {last:.3f} / {last / first:.3f}; {memory[100]:.0f} / {memory[TASKS]:.0f}",
    }


def reservoir(repetitions: int) -> Row:
    x, y = torch.zeros((1_000_000, 1, 1, 1), dtype=torch.uint8), torch.zeros(1_000_000, dtype=torch.int64)

    def fill() -> None:
        Buffer(10_000, (1, 1, 1)).add(x, y, torch.Generator().manual_seed(0))

    fill()
    return {"what": "1,000,000 examples into 10,000 slots: s", **summary([seconds(fill) for _ in range(repetitions)])}


def draws(repetitions: int) -> list[Row]:
    rows: list[Row] = []
    for capacity in (1_000, 100_000):
        buffer = Buffer(capacity, (1, 28, 28))
        buffer.add(
            torch.zeros((capacity, 1, 28, 28), dtype=torch.uint8),
            torch.arange(capacity) % 10,
            torch.Generator().manual_seed(0),
        )
        generator = torch.Generator().manual_seed(0)

        def probe_sample(buffer: Buffer = buffer, generator: torch.Generator = generator) -> None:
            chosen = buffer.draw(1, 256, generator)[0]
            buffer.x[chosen], buffer.y[chosen]

        probe_sample()
        found = summary([1000 * seconds(probe_sample) for _ in range(repetitions)])
        rows.append({"what": f"256 examples for a probe out of {capacity}: ms", **found})
        rows.append(
            {
                "what": f"buffer bytes / (capacity x bytes an example), {capacity}",
                "median": buffer.nbytes / (capacity * (784 + 8)),
            }
        )
    return rows


def main() -> None:
    options = arguments(__doc__, repetitions=9)
    rows = [reservoir(options.repetitions), *draws(options.repetitions)]
    torch.set_num_threads(1)
    for method in METHODS.names():
        rows.append(thousand_tasks(method))
        show("growth", rows[-1:], None)
    show("growth", rows, options.json)


if __name__ == "__main__":
    main()
