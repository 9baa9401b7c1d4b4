"""A classification dataset in memory, checked once when it is made so that nothing after it has to."""

import math
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
    fingerprint: str = ""
    """Of its content, where that is known without reading it."""

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
        # No byte is above 255: images in a file that is mapped are not read for nothing.
        if self.scale < 255 and x.max() > self.scale:
            raise self._error(f"{split} has a pixel of {x.max()}, expected at most {self.scale:g}")
        classes = len(self.class_names)
        if y.min() < 0 or y.max() >= classes:
            raise self._error(f"{split} labels are {y.min()} to {y.max()}, expected 0 to {classes - 1}")
        missing = np.flatnonzero(np.bincount(y, minlength=classes) == 0)
        if len(missing):
            raise self._error(f"class {missing[0]} has no {split} image, expected at least one")

    def _error(self, problem: str) -> DataError:
        return DataError(f"dataset {self.name}: {problem}")


class Moments:
    """Mean and standard deviation per channel of images that come in parts. Exact: how they are cut does not matter."""

    def __init__(self, channels: int) -> None:
        self.pixels = 0
        self.sums, self.squares = [0] * channels, [0] * channels

    def add(self, x: Images) -> None:
        at_once = max(1, (1 << 20) // max(1, x[:1].size))  # it is widened to four times its size
        for start in range(0, len(x), at_once):
            wide = x[start : start + at_once].astype(np.uint32)
            self.pixels += wide[:, 0].size
            for known, values in ((self.sums, wide), (self.squares, wide * wide)):
                found = values.sum(axis=(0, 2, 3), dtype=np.uint64).tolist()
                known[:] = [a + b for a, b in zip(known, found, strict=True)]

    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Of pixels over 255. A channel that is the same everywhere has 1.0 for a deviation, to divide by."""
        n = max(1, self.pixels)
        means = tuple(total / n / 255 for total in self.sums)
        variances = [max(0, n * q - s * s) / (n * n) for s, q in zip(self.sums, self.squares, strict=True)]
        return means, tuple(math.sqrt(v) / 255 or 1.0 for v in variances)


def for_testing(y: Labels, share: float, class_names: tuple[str, ...], source: str) -> NDArray[np.bool_]:
    """Which examples are for testing where nobody said: of each class that share, at least one and not all.

    By position, not by a generator, so that it is the same under every version of every library: with a share of 0.2
    every fifth.
    """
    chosen = np.zeros(len(y), bool)
    counts = np.bincount(y, minlength=len(class_names))
    by_class = np.split(np.argsort(y, kind="stable"), np.cumsum(counts)[:-1])
    for name, rows in zip(class_names, by_class, strict=True):
        if len(rows) == 1:
            raise DataError(
                f"class {name!r} of {source} has one image, which cannot be both trained on and tested on: add images"
                " or a test part"
            )
        # What floats lack of a whole number must not move an example.
        steps = np.floor(np.arange(len(rows) + 1) * share + 1e-9)
        chosen[rows[np.diff(steps) > 0]] = True
        chosen[rows[-1:]] |= steps[-1] == 0
    return chosen
