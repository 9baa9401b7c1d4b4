"""CIFAR-100 (fine labels) from its binary version, as the unpacked folder or straight from the archive."""

from pathlib import Path

from tfcsr.data import cifar
from tfcsr.data.dataset import Dataset, Images, Labels

FOLDER = "cifar-100-binary"
ARCHIVE = "cifar-100-binary.tar.gz"
CLASS_NAMES = "fine_label_names.txt"
FINE, COARSE = 100, 20
PER_CLASS = {"train.bin": 500, "test.bin": 100}
RECORD = 2 + cifar.PIXELS  # coarse label, fine label, pixels


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: train.bin and test.bin, or the archive alone."""
    return cifar.paths(_layout(), data_dir)


def load(data_dir: str | None = None) -> Dataset:
    return cifar.load(_layout(), paths(data_dir), mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761))


def read_records(path: Path, raw: bytes, per_class: int) -> tuple[Images, Labels]:
    """The images and fine labels of `raw`, which came from `path`."""
    return cifar.read_split(_layout(), cifar.Split((path.name,), per_class), {path.name: path}, {path.name: raw})


def _layout() -> cifar.Layout:
    train, test = (cifar.Split((name,), count) for name, count in PER_CLASS.items())
    labels = {"coarse label": COARSE, "fine label": FINE}
    return cifar.Layout("cifar100", FOLDER, ARCHIVE, CLASS_NAMES, labels, train, test)
