"""1,797 digits of 8x8 pixels that come with the package, 5 tasks of 2 classes: nothing to download, seconds to run."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import digits

    return digits.load()


BENCHMARKS.add("split-digits")(
    # Ten epochs, as on MNIST, would be 50 steps a task: too few to learn one.
    Benchmark(load=load, classes=10, tasks=5, defaults={"epochs": 20, "buffer_capacity": 50})
)
