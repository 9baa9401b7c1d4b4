"""The real datasets, where TFCSR_DATA says they are; Fashion-MNIST also where Debian puts it."""

import os

import numpy as np
import pytest

from tfcsr.data import sources
from tfcsr.data.dataset import Dataset


def folder_of(name: str) -> str:
    folder = os.environ.get("TFCSR_DATA")
    if not folder:
        pytest.skip("TFCSR_DATA is not set")
    if sources.describe(name, folder)[0] is None:
        pytest.skip(f"no {name} in TFCSR_DATA")
    return folder


def assert_normalised(data: Dataset) -> None:
    """From all images, since every tenth image of MNIST is not a fair sample; in parts, to stay small."""
    values = np.arange(256) / data.scale
    for channel, (mean, std) in enumerate(zip(data.mean, data.std, strict=True)):
        parts = np.array_split(data.train_x[:, channel], 50)
        share = sum(np.bincount(part.ravel(), minlength=256) for part in parts) / data.train_x[:, channel].size
        assert share @ values == pytest.approx(mean, abs=5e-4)
        assert share @ values**2 - (share @ values) ** 2 == pytest.approx(std**2, abs=5e-4)


def test_mnist():
    data = sources.load("mnist", folder_of("mnist"))
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.train_y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.test_y[:5].tolist() == [7, 2, 1, 0, 4]
    assert_normalised(data)


def test_mnist_is_official():
    states = sources.check("mnist", folder_of("mnist"))
    assert len(states) == 4
    assert {state for _, state in states} == {"ok, official checksum"}


def fashion_folder() -> str | None:
    folder = os.environ.get("TFCSR_DATA")
    if folder and sources.describe("fashion-mnist", folder)[0] is not None:
        return folder
    if sources.describe("fashion-mnist")[0] is None:
        pytest.skip("no fashion-mnist, neither in TFCSR_DATA nor installed")
    return None


def test_fashion_mnist():
    data = sources.load("fashion-mnist", fashion_folder())
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.test_x.shape == (10_000, 1, 28, 28)
    assert data.train_y[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert data.test_y[:5].tolist() == [9, 2, 1, 1, 6]
    assert_normalised(data)


def test_fashion_mnist_is_official():
    states = sources.check("fashion-mnist", fashion_folder())
    assert len(states) == 4
    assert {state for _, state in states} == {"ok, official checksum"}


def test_cifar10():
    data = sources.load("cifar10", folder_of("cifar10"))
    assert data.train_x.shape == (50_000, 3, 32, 32)
    assert data.test_x.shape == (10_000, 3, 32, 32)
    assert data.train_y[:5].tolist() == [6, 9, 9, 4, 1]
    assert (data.class_names[0], data.class_names[9]) in {("airplane", "truck"), ("class 0", "class 9")}
    assert_normalised(data)


def test_cifar10_is_official():
    states = sources.check("cifar10", folder_of("cifar10"))
    assert len(states) in (1, 6)
    assert {state for _, state in states} == {"ok, official checksum"}


def test_cifar100():
    data = sources.load("cifar100", folder_of("cifar100"))
    assert data.train_x.shape == (50_000, 3, 32, 32)
    assert data.test_x.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.train_y).tolist() == [500] * 100
    assert np.bincount(data.test_y).tolist() == [100] * 100
    assert (data.class_names[0], data.class_names[99]) in {("apple", "worm"), ("class 0", "class 99")}
    assert_normalised(data)


def test_cifar100_is_valid():
    states = sources.check("cifar100", folder_of("cifar100"))
    assert [name for name, _ in states] in (["train.bin", "test.bin"], ["cifar-100-binary.tar.gz"])
    assert {state for _, state in states} <= {"ok, official checksum", "ok, content valid, not the official file"}
