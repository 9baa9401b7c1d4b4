"""Grey images of ten classes in four IDX files, plain or gzipped: MNIST, and what came after it in the same form.

The files of every such dataset have the same names: the folder says which one they are of.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tfcsr.data import sources
from tfcsr.data.dataset import Dataset, Images, Labels

SIDE = 28
UNSIGNED_BYTE = 0x08

# Of each split, how many images of each class there are; "t10k" is the test split.
Counts = Mapping[str, tuple[int, ...]]


def paths(name: str, folders: Sequence[str], data_dir: str | None) -> list[Path]:
    """The files that `load` reads: images and labels of train, then of t10k. Each in the first of the folders that has
    it, relative to where data lies.
    """
    kinds = [f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return [
        sources.find(name, [f"{folder}{kind}{suffix}" for folder in folders for suffix in ("", ".gz")], data_dir)
        for kind in kinds
    ]


def load(
    name: str, found: Sequence[Path], counts: Counts, class_names: tuple[str, ...], mean: float, std: float
) -> Dataset:
    """The dataset from these files, which must have exactly these counts."""
    train_images, train_labels, test_images, test_labels = found
    train_x, train_y = read_split(name, train_images, train_labels, counts["train"])
    test_x, test_y = read_split(name, test_images, test_labels, counts["t10k"])
    return Dataset(
        name=name,
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        class_names=class_names,
        scale=255.0,
        mean=(mean,),
        std=(std,),
        files=sources.users_own(name, found),
    )


def read_split(name: str, images: Path, labels: Path, class_counts: tuple[int, ...]) -> tuple[Images, Labels]:
    total, classes = sum(class_counts), len(class_counts)
    y = read(name, labels, (total,)).astype(np.int64)
    if y.max() >= classes:
        raise sources.damaged(name, labels, f"label {y.max()}, expected 0 to {classes - 1}")
    for label, (found, expected) in enumerate(zip(np.bincount(y, minlength=classes), class_counts, strict=True)):
        if found != expected:
            raise sources.damaged(name, labels, f"{found} labels are {label}, expected {expected}")
    return read(name, images, (total, SIDE, SIDE))[:, np.newaxis], y


def read(name: str, path: Path, shape: tuple[int, ...]) -> Images:
    """The array of an IDX file of unsigned bytes, which must have exactly this shape.

    What the header claims is compared, never used: the file decides over no allocation.
    """
    magic = UNSIGNED_BYTE << 8 | len(shape)
    start = 4 + 4 * len(shape)
    size = start + math.prod(shape)
    raw = sources.read(name, path, at_most=size)
    if len(raw) != size:
        raise sources.damaged(name, path, f"{len(raw)} bytes, expected {size}")
    found_magic, *found_shape = np.frombuffer(raw[:start], ">u4").tolist()
    if found_magic != magic:
        raise sources.damaged(name, path, f"magic number {found_magic}, expected {magic}")
    if tuple(found_shape) != shape:
        raise sources.damaged(name, path, f"dimensions {tuple(found_shape)}, expected {shape}")
    # Copied, because torch refuses to share memory that is read-only.
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape).copy()
