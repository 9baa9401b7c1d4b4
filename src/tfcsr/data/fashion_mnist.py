"""Fashion-MNIST from its four IDX files, plain or gzipped, in torchvision's layout or as Debian installs them.

Not directly in the data folder: files of these names there are MNIST's.
"""

from pathlib import Path

from tfcsr.data import idx
from tfcsr.data.dataset import Dataset

# How many images of each class the official files have; "t10k" is the test split.
CLASS_COUNTS = {"train": (6000,) * 10, "t10k": (1000,) * 10}
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: images and labels of train, then of t10k."""
    return idx.paths("fashion-mnist", ("FashionMNIST/raw/", "fashion-mnist/"), data_dir)


def load(data_dir: str | None = None) -> Dataset:
    return idx.load("fashion-mnist", paths(data_dir), CLASS_COUNTS, CLASS_NAMES, mean=0.2860, std=0.3530)
