"""Images of your own: a folder with a directory per class, or train/ and test/ above such."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.folders import classes_of
from tfcsr.errors import DataError
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset

TASKS = 5
OPTIONS = (
    Option(
        "size",
        int,
        0,
        "pixels of the square to which every image is scaled and cropped; 0: as they are, if all have one size",
        low=0,
        high=4096,
    ),
    Option("skip_unreadable", bool, False, "leave out image files that cannot be read, instead of refusing them all"),
    Option(
        "test_share",
        float,
        0.2,
        "share of each class that is kept for testing, where the data has no test part",
        low=0.01,
        high=0.9,
    ),
)


def load(path: Path, data_dir: str | None, *, size: int, skip_unreadable: bool, test_share: float) -> "Dataset":
    import numpy as np

    from tfcsr.data.dataset import Dataset
    from tfcsr.data.packed import pack

    packed = pack(path, size=size or None, skip_unreadable=skip_unreadable, test_share=test_share, data_dir=data_dir)
    x, y, train = packed.x.tensor.numpy(), packed.y, packed.train
    missing = np.flatnonzero(np.bincount(y[train:], minlength=len(packed.class_names)) == 0)
    if len(missing):
        raise DataError(f"{path / 'test'} has no image of class {packed.class_names[missing[0]]!r}: add some")
    return Dataset(
        name=f"folder:{path}",
        train_x=x[:train],
        train_y=y[:train],
        test_x=x[train:],
        test_y=y[train:],
        class_names=packed.class_names,
        scale=255.0,
        mean=packed.mean,
        std=packed.std,
        fingerprint=packed.fingerprint,
    )


def benchmark(rest: str) -> Benchmark:
    """The benchmark of a folder: its classes, in up to five tasks."""
    try:
        path = Path(rest).expanduser()
    except RuntimeError:  # ~nobody
        raise DataError(f"there is no folder {rest}: give one that has a directory of images per class") from None
    classes = len(classes_of(path))
    return Benchmark(functools.partial(load, path), classes=classes, tasks=min(TASKS, classes), options=OPTIONS)


BENCHMARKS.add("folder", options=OPTIONS)(cast("Any", benchmark))
