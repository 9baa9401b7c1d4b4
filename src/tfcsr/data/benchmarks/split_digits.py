"""scikit-learn's bundled 8x8 digits, 5 tasks of 2 classes: nothing to download, seconds to run."""

from tfcsr.data import digits
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

BENCHMARKS.add("split-digits")(
    # Ten epochs, as on MNIST, would be 50 steps a task: too few to learn one.
    Benchmark(load=lambda data_dir: digits.load(), classes=10, tasks=5, defaults={"epochs": 20, "buffer_capacity": 50})
)
