"""Continual learning by replay and spaced recall.

    learner = tfcsr.Learner(method="tfcsr", buffer_capacity=500)
    learner.learn("week1/")
    result = tfcsr.run(tfcsr.RunSpec(benchmark="split-digits", method="tfcsr"))
    comparison = tfcsr.compare(methods=["er", "tfcsr"], seeds=5)

Each name is imported on first use, so `import tfcsr` does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfcsr.buffer.buffer import Buffer as Buffer
    from tfcsr.buffer.policies import POLICIES as POLICIES
    from tfcsr.data.benchmarks import BENCHMARKS as BENCHMARKS
    from tfcsr.data.benchmarks import Benchmark as Benchmark
    from tfcsr.data.dataset import Dataset as Dataset
    from tfcsr.errors import TfcsrError as TfcsrError
    from tfcsr.experiments.compare import Comparison as Comparison
    from tfcsr.experiments.result import Result as Result
    from tfcsr.learner import Learner as Learner
    from tfcsr.methods import METHODS as METHODS
    from tfcsr.models import MODELS as MODELS
    from tfcsr.options import Option as Option
    from tfcsr.recall.schedule import SCHEDULES as SCHEDULES
    from tfcsr.reporting.interactive import compare as compare
    from tfcsr.reporting.interactive import resume as resume
    from tfcsr.reporting.interactive import run as run
    from tfcsr.spec import RunSpec as RunSpec

__version__ = "0.4.0"

_HOME = {
    "BENCHMARKS": "tfcsr.data.benchmarks",
    "Benchmark": "tfcsr.data.benchmarks",
    "Buffer": "tfcsr.buffer.buffer",
    "Comparison": "tfcsr.experiments.compare",
    "Dataset": "tfcsr.data.dataset",
    "Learner": "tfcsr.learner",
    "METHODS": "tfcsr.methods",
    "MODELS": "tfcsr.models",
    "Option": "tfcsr.options",
    "POLICIES": "tfcsr.buffer.policies",
    "Result": "tfcsr.experiments.result",
    "RunSpec": "tfcsr.spec",
    "SCHEDULES": "tfcsr.recall.schedule",
    "TfcsrError": "tfcsr.errors",
    "compare": "tfcsr.reporting.interactive",
    "resume": "tfcsr.reporting.interactive",
    "run": "tfcsr.reporting.interactive",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "recall":
        return importlib.import_module("tfcsr.recall")
    if name not in _HOME:
        raise AttributeError(f"module 'tfcsr' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
