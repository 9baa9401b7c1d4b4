"""What is Fashion-MNIST's own; the reading of IDX files is held by the tests of MNIST."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pooch
import pytest

from tfcsr.data import fashion_mnist, fingerprint, mnist, sources

OFFICIAL = fashion_mnist.CLASS_COUNTS


def idx(pixels: bytes, *shape: int) -> bytes:
    return struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + pixels


def lay_out(folder: Path, shift: int = 0, *, packed: bool = False) -> Path:
    """Two train images and one test image of each class, with pixels from `shift` on."""
    folder.mkdir(parents=True)
    for split, count in (("train", 20), ("t10k", 10)):
        images = b"".join(bytes([i + shift]) * 784 for i in range(count))
        files = {
            "images-idx3": idx(images, count, 28, 28),
            "labels-idx1": idx(bytes(i % 10 for i in range(count)), count),
        }
        for kind, content in files.items():
            path = folder / f"{split}-{kind}-ubyte{'.gz' * packed}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.fixture(autouse=True)
def system(tmp_path, monkeypatch) -> Path:
    """Where the system puts it, on a machine of its own."""
    for module in (mnist, fashion_mnist):
        monkeypatch.setattr(module, "CLASS_COUNTS", {"train": (2,) * 10, "t10k": (1,) * 10})
    monkeypatch.delenv("TFCSR_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache")
    monkeypatch.setattr(sources, "INSTALLED", {"fashion-mnist": tmp_path / "system"})
    return tmp_path / "system"


def test_the_official_counts():
    assert OFFICIAL == {"train": (6000,) * 10, "t10k": (1000,) * 10}


@pytest.mark.parametrize("packed", [False, True])
def test_load(tmp_path, packed):
    lay_out(tmp_path / "FashionMNIST" / "raw", packed=packed)
    data = fashion_mnist.load(str(tmp_path))
    assert data.name == "fashion-mnist"
    assert data.train_x.shape == (20, 1, 28, 28)
    assert data.test_x.shape == (10, 1, 28, 28)
    assert data.train_x[:, 0, 5, 7].tolist() == list(range(20))
    assert data.train_y.tolist() == [*range(10), *range(10)]
    assert data.train_x.flags.writeable
    assert (data.class_names[0], data.class_names[9]) == ("T-shirt/top", "Ankle boot")
    assert len(set(data.class_names)) == 10


def test_beside_mnist_each_is_read_from_its_own_folder(tmp_path):
    lay_out(tmp_path / "MNIST" / "raw", 1)
    lay_out(tmp_path / "FashionMNIST" / "raw", 2)
    assert mnist.load(str(tmp_path)).train_x.min() == 1
    assert fashion_mnist.load(str(tmp_path)).train_x.min() == 2


def test_files_that_lie_there_without_a_folder_are_mnist(tmp_path, refused):
    lay_out(tmp_path / "flat")
    mnist.load(str(tmp_path / "flat"))
    with refused("fashion-mnist: no train-images-idx3-ubyte in", "`tfcsr data fetch fashion-mnist --data-dir"):
        fashion_mnist.load(str(tmp_path / "flat"))


def test_what_the_system_brought(tmp_path, system, monkeypatch, refused):
    installed = lay_out(system / "fashion-mnist", 3, packed=True)
    before = sorted(tmp_path.rglob("*"))
    data = fashion_mnist.load()
    assert data.train_x.min() == 3
    assert sources.describe("fashion-mnist")[0] == str(installed)
    fingerprint.of_dataset(data)
    assert sorted(tmp_path.rglob("*")) == before  # nothing is left beside the system's files
    with refused("fashion-mnist: no train-images-idx3-ubyte in", tmp_path / "elsewhere"):
        fashion_mnist.load(str(tmp_path / "elsewhere"))
    lay_out(tmp_path / "cache" / "FashionMNIST" / "raw", 4)
    assert fashion_mnist.load().train_x.min() == 4
    lay_out(tmp_path / "mine" / "FashionMNIST" / "raw", 5)
    monkeypatch.setenv("TFCSR_DATA", str(tmp_path / "mine"))
    data = fashion_mnist.load()
    assert data.train_x.min() == 5
    assert len(data.files) == 4


def test_debians_own_folder_can_be_named(tmp_path, system):
    lay_out(system / "fashion-mnist", packed=True)
    assert np.array_equal(fashion_mnist.load(str(system)).train_x, fashion_mnist.load().train_x)


def test_missing(tmp_path, refused):
    with refused("fashion-mnist", tmp_path / "cache", tmp_path / "system", Path("DIR/FashionMNIST/raw")):
        fashion_mnist.load()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train-labels-idx1-ubyte", idx(bytes([1, *range(1, 10), *range(10)]), 20), "1 labels are 0, expected 2"),
        ("train-labels-idx1-ubyte", idx(bytes([10, *range(1, 10), *range(10)]), 20), "label 10, expected 0 to 9"),
        ("t10k-images-idx3-ubyte", idx(bytes(784), 1, 28, 28), "800 bytes, expected 7856"),
        ("t10k-images-idx3-ubyte", b"", "0 bytes, expected 7856"),
    ],
)
def test_damage_names_the_right_dataset(tmp_path, refused, name, content, said):
    path = lay_out(tmp_path / "FashionMNIST" / "raw") / name
    path.write_bytes(content)
    with refused(path, said, "run `tfcsr data fetch fashion-mnist`"):
        fashion_mnist.load(str(tmp_path))
