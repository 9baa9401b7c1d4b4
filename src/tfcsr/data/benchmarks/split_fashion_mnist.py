"""Fashion-MNIST, 5 tasks of 2 classes of clothes, with the CNN of Split MNIST: as small, and not as easy."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import fashion_mnist

    return fashion_mnist.load(data_dir)


BENCHMARKS.add("split-fashion-mnist")(Benchmark(load=load, classes=10, tasks=5))
