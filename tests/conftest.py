"""Beside the benchmark and the models of `tfcsr.testing`: models that fail, a method that binds new tensors."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from tfcsr.data.tasks import Task
from tfcsr.experiments.machine import cores
from tfcsr.methods.base import Method
from tfcsr.models import MODELS
from tfcsr.testing import make_spec as make_spec
from tfcsr.testing import make_training as make_training
from tfcsr.testing import striped_dataset as striped_dataset
from tfcsr.testing import tiny_bn as tiny_bn
from tfcsr.testing import tiny_linear as tiny_linear
from tfcsr.testing import trained as trained


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


# Tests run side by side. A process of two threads that is not told this keeps a core busy with waiting for the other.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A shell starts what runs in the background deaf to Ctrl-C, and so are its children: tests of Ctrl-C would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time, and no clock: a loaded machine is no reason to fail.
settings.register_profile("tfcsr", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfcsr")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for a process, a signal or a browser."""
    return cores() + 1


def pytest_sessionstart() -> None:
    """What is collected stays: to look through it for garbage again and again takes a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()


TEST_MODELS = ("tiny-linear", "tiny-bn", "diverging", "exploding")


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
