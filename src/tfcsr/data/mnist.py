"""MNIST from its four IDX files, plain or gzipped, in torchvision's layout or directly in the data folder."""

import math
from pathlib import Path

import numpy as np

from tfcsr.data import sources
from tfcsr.data.dataset import Dataset, Images, Labels

# How many images of each digit the official files have; "t10k" is the test split.
CLASS_COUNTS = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "t10k": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}
SIDE = 28
UNSIGNED_BYTE = 0x08


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: images and labels of train, then of t10k."""
    return [
        _path(f"{split}-{kind}-ubyte", data_dir) for split in CLASS_COUNTS for kind in ("images-idx3", "labels-idx1")
    ]


def load(data_dir: str | None = None) -> Dataset:
    train_images, train_labels, test_images, test_labels = paths(data_dir)
    train_x, train_y = read_split(train_images, train_labels, CLASS_COUNTS["train"])
    test_x, test_y = read_split(test_images, test_labels, CLASS_COUNTS["t10k"])
    return Dataset(
        name="mnist",
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        class_names=tuple("0123456789"),
        scale=255.0,
        mean=(0.1307,),
        std=(0.3081,),
        files=(train_images, train_labels, test_images, test_labels),
    )


def read_split(images: Path, labels: Path, class_counts: tuple[int, ...]) -> tuple[Images, Labels]:
    total = sum(class_counts)
    y = read_idx(labels, (total,)).astype(np.int64)
    if y.max() >= len(class_counts):
        raise sources.damaged("mnist", labels, f"label {y.max()}, expected 0 to {len(class_counts) - 1}")
    for label, (found, expected) in enumerate(zip(np.bincount(y, minlength=10), class_counts, strict=True)):
        if found != expected:
            raise sources.damaged("mnist", labels, f"{found} labels are {label}, expected {expected}")
    return read_idx(images, (total, SIDE, SIDE))[:, np.newaxis], y


def read_idx(path: Path, shape: tuple[int, ...]) -> Images:
    """The array of an IDX file of unsigned bytes, which must have exactly this shape.

    What the header claims is compared, never used: the file decides over no allocation.
    """
    magic = UNSIGNED_BYTE << 8 | len(shape)
    start = 4 + 4 * len(shape)
    size = start + math.prod(shape)
    raw = sources.read("mnist", path, at_most=size)
    if len(raw) != size:
        raise sources.damaged("mnist", path, f"{len(raw)} bytes, expected {size}")
    found_magic, *found_shape = np.frombuffer(raw[:start], ">u4").tolist()
    if found_magic != magic:
        raise sources.damaged("mnist", path, f"magic number {found_magic}, expected {magic}")
    if tuple(found_shape) != shape:
        raise sources.damaged("mnist", path, f"dimensions {tuple(found_shape)}, expected {shape}")
    # Copied, because torch refuses to share memory that is read-only.
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape).copy()


def _path(name: str, data_dir: str | None) -> Path:
    candidates = [f"{folder}{name}{suffix}" for folder in ("MNIST/raw/", "") for suffix in ("", ".gz")]
    return sources.find("mnist", candidates, data_dir)
