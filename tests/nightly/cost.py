"""What a checkpoint costs, on the real data ($TFCSR_DATA): the share of a Split MNIST epoch it takes, and the size of
the one of a Split CIFAR-100 run:

    python -m tests.nightly.cost
"""

import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.experiments.machine import on_this_machine, settings
from tfcsr.experiments.training import Training
from tfcsr.spec import RunSpec
from tfcsr.training.checkpoint import Checkpoints
from tfcsr.training.events import JsonLines


class Enough(Exception):
    pass


def measure(spec: RunSpec, epochs: int, folder: Path) -> tuple[list[float], list[float], int, int]:
    """Seconds of each epoch and of each checkpoint; bytes of the last, and of what it must hold."""
    spec = on_this_machine(spec)
    checkpoints = Checkpoints(folder / "checkpoint", spec.key())
    trained: list[float] = []
    saved: list[float] = []
    sizes = [0, 0]
    with settings(spec):
        training = Training(spec, BENCHMARKS.get(spec.benchmark).load(spec.data_dir))
        events = JsonLines(folder / "events.jsonl")
        training.events.listeners.append(events)
        started = time.perf_counter()

        def boundary() -> None:
            nonlocal started
            now = time.perf_counter()
            checkpoints.save(training.epochs_trained, training.state_dict(), events.synced())
            trained.append(now - started)
            saved.append(time.perf_counter() - now)
            if len(trained) == epochs:
                held = [*training.model.state_dict().values(), training.learner.buffer.x, training.learner.buffer.y]
                held += [t for state in training.optimizer.state.values() for t in state.values()]
                written = (checkpoints.manifest(epochs), checkpoints.tensors(epochs))
                sizes[:] = sum(file.stat().st_size for file in written), sum(t.nbytes for t in held)
                raise Enough
            started = time.perf_counter()

        with suppress(Enough):
            training.run(boundary)
        events.close()
    return trained[1:] or trained, saved, sizes[0], sizes[1]  # the first epoch also warms up


def main() -> None:
    for method in ("tfcsr", "ewc"):
        with tempfile.TemporaryDirectory() as folder:
            spec = RunSpec(benchmark="split-mnist", method=method, device="cpu")
            trained, saved, size, _ = measure(spec, 14, Path(folder))
        epoch, checkpoint = statistics.median(trained), statistics.median(saved)
        share = 100 * checkpoint / epoch
        print(
            f"split-mnist {method}: epoch {epoch:.2f} s, checkpoint {1000 * checkpoint:.1f} ms, {share:.2f} %, {size} B"
        )
    with tempfile.TemporaryDirectory() as folder:
        spec = RunSpec(benchmark="split-cifar100", method="tfcsr", max_per_class=8, device="cpu")
        _, saved, size, held = measure(spec, 1, Path(folder))
    print(f"split-cifar100: {size} bytes for {held} of weights, optimizer and buffer: {size / held:.4f} times")


if __name__ == "__main__":
    main()
