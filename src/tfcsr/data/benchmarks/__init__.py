"""Named sequences of tasks. A file per benchmark says which dataset it splits and which settings are its defaults."""

from tfcsr.data.benchmarks.base import Benchmark as Benchmark
from tfcsr.registry import Registry

BENCHMARKS: Registry[Benchmark] = Registry(
    "benchmark", __name__, needs=("dataset", "tasks"), families={"folder": "PATH", "npz": "FILE"}
)
