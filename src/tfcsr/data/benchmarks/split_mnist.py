"""MNIST, 5 tasks of 2 digits, with the paper's CNN: the paper's first benchmark."""

from tfcsr.data import mnist
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

BENCHMARKS.add("split-mnist")(Benchmark(load=mnist.load, classes=10, tasks=5))
