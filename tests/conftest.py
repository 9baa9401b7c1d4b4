"""A benchmark and two models so small that whole sequences run in a fraction of a second."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Task
from tfcsr.methods.base import Method
from tfcsr.models import MODELS
from tfcsr.spec import RunSpec
from tfcsr.training.events import Listener
from tfcsr.training.loop import Training


def striped_dataset(classes: int = 6, train: int = 40, test: int = 10, size: int = 4) -> Dataset:
    """Class k lights up pixel k, with noise: learnable, and different from class to class."""
    rng = np.random.default_rng(7)

    def split(per_class: int) -> tuple[Any, Any]:
        y = np.repeat(np.arange(classes), per_class)
        x = rng.integers(0, 100, (len(y), 1, size, size))
        x.reshape(len(y), -1)[np.arange(len(y)), y % (size * size)] = 255
        return x.astype(np.uint8), y.astype(np.int64)

    train_x, train_y = split(train)
    test_x, test_y = split(test)
    names = tuple(f"class {k}" for k in range(classes))
    return Dataset("striped", train_x, train_y, test_x, test_y, names, 255.0, (0.2,), (0.25,))


def tiny_linear(shape: tuple[int, int, int], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))


def tiny_bn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """With batch normalisation, whose statistics and modes are what a careless probe would spoil."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], classes),
    )


BENCHMARKS.add("tiny")(
    Benchmark(
        load=lambda data_dir: striped_dataset(),
        classes=6,
        tasks=3,
        defaults={"model": "tiny-bn", "epochs": 4, "batch_size": 16, "buffer_capacity": 24, "max_epochs": 6},
    )
)
MODELS.add("tiny-linear")(tiny_linear)
MODELS.add("tiny-bn")(tiny_bn)


class Diverging(nn.Module):
    """Turns to infinity at a training batch; evaluations before are fine."""

    def __init__(self, shape: tuple[int, int, int], classes: int, at: int = 30) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0] * shape[1] * shape[2], classes)
        self.at = at
        self.batches = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.batches += self.training
        logits: torch.Tensor = self.linear(x.flatten(1)) * (float("inf") if self.batches >= self.at else 1.0)
        return logits


MODELS.add("diverging")(Diverging)
MODELS.add("exploding")(lambda shape, classes: Diverging(shape, classes, at=1))


class Anchored(Method):
    """Binds new tensors at the end of a task, where a recording would go on with the old ones, or with none."""

    anchor = None

    def end_task(self, task: Task) -> None:
        self.anchor = [p.detach().clone() for p in self.parameters()]  # type: ignore[assignment]

    def penalty(self) -> torch.Tensor | None:
        if self.anchor is None:
            return None
        return 0.1 * sum((p - a).square().sum() for p, a in zip(self.parameters(), self.anchor, strict=True))


# The same examples every time, and no clock: a loaded machine is no reason to fail.
settings.register_profile("tfcsr", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfcsr")

TEST_MODELS = ("tiny-linear", "tiny-bn", "diverging", "exploding")


def make_spec(**fields: Any) -> RunSpec:
    return RunSpec.from_dict({"benchmark": "tiny", "device": "cpu", "precision": "fp32", "threads": 1} | fields)


def make_training(listeners: tuple[Listener, ...] = (), **fields: Any) -> Training:
    spec = make_spec(**fields)
    return Training(spec, BENCHMARKS.get(spec.benchmark).load(spec.data_dir), listeners)


def trained(**fields: Any) -> Training:
    training = make_training(**fields)
    training.run()
    return training


def spoil(path: Path, at: int = -1) -> None:
    """Turn over one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Bits depend on the number of threads, and tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
