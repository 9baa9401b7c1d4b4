"""A classification dataset in memory, checked once when it is made so that nothing after it has to."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfcsr.errors import DataError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images [N,C,H,W] and labels [N]. A pixel over `scale` lies in 0..1; `mean` and `std` are per channel, scaled."""

    name: str
    train_x: Images
    train_y: Labels
    test_x: Images
    test_y: Labels
    class_names: tuple[str, ...]
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    files: tuple[Path, ...] = ()
    """What it was read from, if it was."""

    def __post_init__(self) -> None:
        self._check_split("train", self.train_x, self.train_y)
        self._check_split("test", self.test_x, self.test_y)
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            raise self._error(f"train images are {self.train_x.shape[1:]}, test images {self.test_x.shape[1:]}")
        channels = self.train_x.shape[1]
        if len(self.mean) != channels or len(self.std) != channels or min(self.std) <= 0:
            raise self._error(f"mean {self.mean} and std {self.std}, expected {channels} values each and std above 0")

    def _check_split(self, split: str, x: Images, y: Labels) -> None:
        if x.ndim != 4 or x.size == 0 or x.dtype != np.uint8:
            raise self._error(f"{split} images are {x.dtype} {x.shape}, expected uint8 [N, C, H, W]")
        if y.shape != x.shape[:1] or y.dtype != np.int64:
            raise self._error(f"{split} labels are {y.dtype} {y.shape}, expected int64 ({len(x)},)")
        if x.max() > self.scale:
            raise self._error(f"{split} has a pixel of {x.max()}, expected at most {self.scale:g}")
        classes = len(self.class_names)
        if y.min() < 0 or y.max() >= classes:
            raise self._error(f"{split} labels are {y.min()} to {y.max()}, expected 0 to {classes - 1}")
        missing = np.flatnonzero(np.bincount(y, minlength=classes) == 0)
        if len(missing):
            raise self._error(f"class {missing[0]} has no {split} image, expected at least one")

    def _error(self, problem: str) -> DataError:
        return DataError(f"dataset {self.name}: {problem}")
