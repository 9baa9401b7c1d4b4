import gzip
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfcsr.data import mnist

SHAPE = (3, 2, 2)
PIXELS = bytes(range(12))


def idx(pixels: bytes, *shape: int) -> bytes:
    return struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + pixels


GOOD = idx(PIXELS, *SHAPE)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """MNIST with two train images and one test image of each digit."""
    monkeypatch.setattr(mnist, "CLASS_COUNTS", {"train": (2,) * 10, "t10k": (1,) * 10})
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for split, count in (("train", 20), ("t10k", 10)):
        images = b"".join(bytes([i]) * 784 for i in range(count))
        (raw / f"{split}-images-idx3-ubyte").write_bytes(idx(images, count, 28, 28))
        (raw / f"{split}-labels-idx1-ubyte").write_bytes(idx(bytes(i % 10 for i in range(count)), count))
    return raw


def test_load(folder):
    data = mnist.load(str(folder.parents[1]))
    assert data.train_x.shape == (20, 1, 28, 28)
    assert data.test_x.shape == (10, 1, 28, 28)
    assert data.train_x[:, 0, 5, 7].tolist() == list(range(20))
    assert data.train_y.tolist() == [*range(10), *range(10)]
    assert data.train_x.flags.writeable
    assert data.train_y.flags.writeable


def test_gzipped_and_directly_in_the_root(folder, tmp_path):
    root = tmp_path / "flat"
    root.mkdir()
    for path in folder.iterdir():
        (root / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    flat, nested = mnist.load(str(root)), mnist.load(str(tmp_path))
    assert np.array_equal(flat.train_x, nested.train_x)
    assert np.array_equal(flat.test_y, nested.test_y)


def test_missing_file(folder, refused):
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with refused("mnist", folder.parents[1], "t10k-labels-idx1-ubyte", "`tfcsr data fetch mnist", "TFCSR_DATA"):
        mnist.load(str(folder.parents[1]))


def test_fewer_labels_than_images(folder, refused):
    path = folder / "train-labels-idx1-ubyte"
    path.write_bytes(idx(bytes(range(10)), 10))
    with refused(path, "18 bytes, expected 28"):
        mnist.load(str(folder.parents[1]))


@pytest.mark.parametrize(
    ("label", "said"), [(10, "label 10, expected 0 to 9"), (255, "label 255"), (1, "1 labels are 0, expected 2")]
)
def test_mislabelled(folder, refused, label, said):
    path = folder / "train-labels-idx1-ubyte"
    path.write_bytes(idx(bytes([label, *range(1, 10), *range(10)]), 20))
    with refused(path, said):
        mnist.load(str(folder.parents[1]))


@pytest.mark.parametrize("name", ["x-ubyte", "x-ubyte.gz"])
def test_read_idx(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(GOOD) if name.endswith("gz") else GOOD)
    assert np.array_equal(mnist.read_idx(path, SHAPE), np.arange(12).reshape(SHAPE))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes, expected 28"),
        (GOOD[:3], "3 bytes, expected 28"),
        (GOOD[:-1], "27 bytes, expected 28"),
        (GOOD + b"\0", "more than 28 bytes"),
        (b"\0\0\x08\x01" + GOOD[4:], "magic number 2049, expected 2051"),
        (b"\0\0\x0d\x03" + GOOD[4:], "magic number 3331, expected 2051"),
        (idx(PIXELS, 3, 4, 1), "dimensions (3, 4, 1), expected (3, 2, 2)"),
        (idx(PIXELS, 2**31, 2, 2), "dimensions (2147483648, 2, 2), expected (3, 2, 2)"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_damage(tmp_path, refused, content, said, suffix):
    path = tmp_path / f"x-ubyte{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    with refused(path, said, "delete it and run `tfcsr data fetch mnist`"):
        mnist.read_idx(path, SHAPE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD, "not an intact gzip file (Not a gzipped file"),
        (gzip.compress(GOOD, mtime=0)[:-9], "not an intact gzip file (Compressed file ended"),
        (gzip.compress(GOOD, mtime=0)[:-8] + bytes(8), "not an intact gzip file (CRC check failed"),
        (gzip.compress(GOOD, mtime=0) + b"more", "not an intact gzip file (Not a gzipped file"),
    ],
)
def test_damaged_gzip(tmp_path, refused, content, said):
    path = tmp_path / "x-ubyte.gz"
    path.write_bytes(content)
    with refused(path, said):
        mnist.read_idx(path, SHAPE)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("claim", idx(PIXELS, 2**31, 28, 28)),
        ("bomb.gz", gzip.compress(bytes(50_000_000))),
        ("long", GOOD + bytes(20_000_000)),
    ],
)
def test_damage_decides_over_no_memory(tmp_path, refused, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with refused(path):
            mnist.read_idx(path, SHAPE)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_folder_in_place_of_a_file(folder, refused):
    path = folder / "train-images-idx3-ubyte"
    path.unlink()
    path.mkdir()
    with refused(path, "not a regular file"):
        mnist.load(str(folder.parents[1]))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="every file is readable to root")
def test_unreadable_file(folder, refused):
    path = folder / "train-images-idx3-ubyte"
    path.chmod(0)
    with refused(path, "Permission denied"):
        mnist.load(str(folder.parents[1]))


def test_other_errors_of_the_system(folder, refused, monkeypatch):
    def fail(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)
    with refused(folder / "train-labels-idx1-ubyte", "Permission denied"):
        mnist.load(str(folder.parents[1]))


@pytest.mark.parametrize("suffix", ["", ".gz"])
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(draw=st.data())
def test_only_our_error_comes_out(tmp_path, mutations, sound_or_refused, suffix, draw):
    path = tmp_path / f"x-ubyte{suffix}"
    path.write_bytes(draw.draw(mutations(gzip.compress(GOOD) if suffix else GOOD, 16)))
    with sound_or_refused(path):
        assert mnist.read_idx(path, SHAPE).shape == SHAPE
