"""MNIST, 5 tasks of 2 digits, with the paper's CNN: the paper's first benchmark."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import mnist

    return mnist.load(data_dir)


BENCHMARKS.add("split-mnist")(Benchmark(load=load, classes=10, tasks=5))
