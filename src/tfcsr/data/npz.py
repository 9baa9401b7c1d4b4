"""Arrays of numpy's in an .npz file: examples and labels, for training alone or for testing too. No pickles."""

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tfcsr.errors import DataError

# How the arrays may be called: for training, and for testing where there is such a part.
TRAIN = (("train_x", "train_y"), ("x_train", "y_train"), ("x", "y"))
TEST = (("test_x", "test_y"), ("x_test", "y_test"))
LABEL_KINDS = "iuUS"  # whole numbers and text


@dataclass(frozen=True, eq=False)
class Arrays:
    """Examples with as many labels, of training and, if there are some, of testing."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray | None = None
    test_y: np.ndarray | None = None


def read(path: str | Path) -> Arrays:
    """All arrays, checked to belong together."""
    path = Path(path)
    with _opened(path) as archive:
        pairs = [(name, _array(path, archive, name)) for pair in _pairs(path, archive.files) for name in pair]
    for x, y in zip(pairs[::2], pairs[1::2], strict=True):
        _check_pair(path, x, y)
    return Arrays(*(array for _, array in pairs))


def labels(path: str | Path) -> np.ndarray:
    """The labels for training alone, which is quick."""
    path = Path(path)
    with _opened(path) as archive:
        name = _pairs(path, archive.files)[0][1]
        y = _array(path, archive, name)
    _check_labels(path, name, y)
    return y


def read_examples(path: str | Path) -> np.ndarray:
    """The examples alone, to be asked about: those for testing, where there are some."""
    path = Path(path)
    with _opened(path) as archive:
        names = [x for x, _ in (*TEST, *TRAIN) if x in archive.files]
        if not names:
            raise DataError(f"{path} has no array x but {', '.join(archive.files[:10]) or 'nothing'}: name it x")
        return _array(path, archive, names[0])


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Turns what numpy and zipfile say about a file into our error: on a damaged one they may raise nearly anything."""
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a regular file: give an .npz with arrays x and y")
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # What is no archive would be read as a whole, if numpy knows it.
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path} is not an .npz file: write one with np.savez(FILE, x=..., y=...)")
            _require_memory(path, file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                yield archive
    except FileNotFoundError:
        raise DataError(f"there is no file {path}: give an .npz with arrays x and y") from None
    except (DataError, MemoryError):
        raise
    except Exception as error:
        reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        raise DataError(f"{path}: cannot be read ({reason}); write it anew with np.savez(FILE, x=..., y=...)") from None


def _pairs(path: Path, present: list[str]) -> list[tuple[str, str]]:
    """What the arrays are called here: those for training, and those for testing if there are some."""
    train = [pair for pair in TRAIN if {*pair} <= {*present}]
    if not train:
        found = ", ".join(sorted(present)[:10]) or "nothing"
        raise DataError(f"{path} holds {found}: name its arrays x and y, or train_x, train_y, test_x and test_y")
    for pair in TEST:
        there = [name for name in pair if name in present]
        if len(there) == 1:
            missing = next(name for name in pair if name not in there)
            raise DataError(f"{path} has {there[0]} and no {missing}: give both or none")
        if there:
            return [train[0], pair]
    return train[:1]


def _array(path: Path, archive: Any, name: str) -> np.ndarray:
    try:
        array: np.ndarray = archive[name]
    except ValueError as error:
        if "pickle" in str(error):
            raise DataError(
                f"{path}: {name} is an array of Python objects, which could run code; save numbers or text instead"
            ) from None
        raise
    except MemoryError:
        raise DataError(f"{path}: {name} does not fit into the memory; give a smaller file") from None
    if not isinstance(array, np.ndarray):  # a member that is no array comes as bytes
        raise DataError(f"{path}: {name} is not an array; write it anew with np.savez(FILE, x=..., y=...)")
    return array


def _require_memory(path: Path, file: BinaryIO) -> None:
    """Refuses an archive that unpacks to more than there is room for: a small one can claim any size."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
    free = _free_memory()
    if free is not None and size > free:
        raise DataError(f"{path} unpacks to {size / 1e9:.1f} GB and {free / 1e9:.1f} GB of memory are free: cut it up")


def _free_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _check_pair(path: Path, x: tuple[str, np.ndarray], y: tuple[str, np.ndarray]) -> None:
    _check_labels(path, *y)
    if x[1].ndim < 2 or x[1].size == 0:
        raise DataError(f"{path}: {x[0]} has shape {x[1].shape}, expected at least one example, [N, ...]")
    if len(x[1]) != len(y[1]):
        raise DataError(f"{path}: {x[0]} has {len(x[1])} examples and {y[0]} {len(y[1])} labels: give one for each")


def _check_labels(path: Path, name: str, y: np.ndarray) -> None:
    if y.ndim != 1 or y.dtype.kind not in LABEL_KINDS:
        raise DataError(f"{path}: {name} is {y.dtype} {y.shape}, expected whole numbers or text, one for each example")
    if len(y) == 0:
        raise DataError(f"{path}: {name} is empty, expected at least one label")
