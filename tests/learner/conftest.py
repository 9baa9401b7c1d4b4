"""Small data and small networks for learners, and what it means that two learners are alike to the bit."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tfcsr import METHODS, Learner
from tfcsr.buffer.disk import OnDisk, Version
from tfcsr.errors import TfcsrError

# Three instalments: of "b" two classes are new and sort before the others, one is known; "c" is of one class.
A, B, C = ("m", "n"), ("b", "a", "m"), ("c",)
EACH = 12
SIZE = 8

# Those that ship: another test may have registered some of its own.
SHIPPED = [name for name in METHODS.names() if METHODS.home(name).startswith("tfcsr.methods.")]

OPTIONS: dict[str, Any] = {
    "device": "cpu",
    "precision": "fp32",
    "threads": 1,
    "epochs": 2,
    "batch_size": 8,
    "lr": 0.01,
    "buffer_capacity": 20,
    "max_epochs": 2,
}


def images(labels: tuple[str, ...], each: int = EACH, seed: int = 0, channels: int = 1) -> tuple[np.ndarray, list[str]]:
    """uint8 images, mixed; of each class one row is bright, by the letter it begins with."""
    rng = np.random.default_rng([seed, *(ord(label[0]) for label in labels)])
    y = [labels[i] for i in rng.permutation(np.repeat(np.arange(len(labels)), each))]
    x = rng.integers(0, 100, (len(y), channels, SIZE, SIZE)).astype(np.uint8)
    for i, label in enumerate(y):
        x[i, :, ord(label[0]) % SIZE] = 255
    return x, y


def features(labels: tuple[Any, ...], each: int = EACH, seed: int = 0, size: int = 6) -> tuple[np.ndarray, list[Any]]:
    """Six numbers an example, of which one is high."""
    rng = np.random.default_rng(seed)
    y = [labels[i] for i in rng.permutation(np.repeat(np.arange(len(labels)), each))]
    x = rng.normal(size=(len(y), size)).astype(np.float32)
    for i, label in enumerate(y):
        x[i, labels.index(label) % size] += 5
    return x, y


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    inputs = int(np.prod(shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, classes))


def dropping(shape: tuple[int, ...], classes: int) -> nn.Module:
    inputs = int(np.prod(shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, classes))


def normalising(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3 * shape[1] * shape[2], classes),
    )


def make(method: str = "tfcsr", model: Any = mlp, **options: Any) -> Learner:
    """A learner with the options of these that its method has."""
    known = {option.name for option in METHODS.options(method)}
    own = {"buffer_capacity", "max_epochs"}
    usual = {name: value for name, value in OPTIONS.items() if name not in own or name in known}
    return Learner(model, method, **usual | options)


def taught(*instalments: tuple[str, ...], **options: Any) -> Learner:
    learner = make(**options)
    for labels in instalments:
        learner.learn(*images(labels))
    return learner


# What the clock says, and what is not asked for where there is no folder.
PASSING = {"when", "seconds", "data"}


def essence(learner: Learner) -> Any:
    """All that a learner is, but for what the clock says."""
    return _without(copy.deepcopy(learner.state_dict()), PASSING)


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, Version):
        there = OnDisk(len(value.rows), value.shape, value.dtype)
        there.go_back(value)
        kept = {name: tensor for name, tensor in value.tensors.items() if name not in ("rows", "sums")}
        return {"x": there.read(torch.arange(len(value.rows)))} | kept
    if isinstance(value, dict):
        return {key: _without(entry, names) for key, entry in value.items() if key not in names}
    return [_without(entry, names) for entry in value] if isinstance(value, list) else value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two states differ, to the bit; NaN is like NaN."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape and one.stride() == other.stride()
        return [] if same and raw(one) == raw(other) else [path]
    if type(one) is not type(other):
        return [f"{path}: {type(one).__name__} {type(other).__name__}"]
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return [f"{path}: {list(one)} {list(other)}"]
        return [found for key in one for found in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{path}: {len(one)} {len(other)}"]
        return [
            found for i, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, f"{path}/{i}")
        ]
    return [] if one == other or (one != one and other != other) else [f"{path}: {one} {other}"]


def raw(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_alike(one: Learner | Any, other: Learner | Any) -> None:
    one, other = (essence(value) if isinstance(value, Learner) else value for value in (one, other))
    assert differences(one, other) == []


class refused:
    """Within it, an error of ours is raised: one line, that says all of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, "nothing was refused"
        if not isinstance(error, TfcsrError):
            return False
        text = str(error)
        assert text.isprintable()
        assert "\\n" not in text, text  # a line that was folded into one
        for word in self.words:
            assert word in text, f"{text!r} does not say {word!r}"
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "learner"
