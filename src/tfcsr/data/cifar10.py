"""CIFAR-10 from its binary version, as the unpacked folder or straight from the archive."""

from pathlib import Path

from tfcsr.data import cifar
from tfcsr.data.dataset import Dataset

LAYOUT = cifar.Layout(
    name="cifar10",
    folder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    class_names="batches.meta.txt",
    labels={"label": 10},
    train=cifar.Split(tuple(f"data_batch_{number}.bin" for number in range(1, 6)), per_class=5000),
    test=cifar.Split(("test_batch.bin",), per_class=1000),
)


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: the five of train and that of test, or the archive alone."""
    return cifar.paths(LAYOUT, data_dir)


def load(data_dir: str | None = None) -> Dataset:
    return cifar.load(LAYOUT, paths(data_dir), mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))
