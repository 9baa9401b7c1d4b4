"""MNIST from its four IDX files, plain or gzipped, in torchvision's layout or directly in the data folder."""

from pathlib import Path

from tfcsr.data import idx
from tfcsr.data.dataset import Dataset, Images

# How many images of each digit the official files have; "t10k" is the test split.
CLASS_COUNTS = {
    "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    "t10k": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
}


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: images and labels of train, then of t10k."""
    return idx.paths("mnist", ("MNIST/raw/", ""), data_dir)


def load(data_dir: str | None = None) -> Dataset:
    return idx.load("mnist", paths(data_dir), CLASS_COUNTS, tuple("0123456789"), mean=0.1307, std=0.3081)


def read_idx(path: Path, shape: tuple[int, ...]) -> Images:
    """The array of one of MNIST's files, which must have exactly this shape."""
    return idx.read("mnist", path, shape)
