"""A dataset on its way to another machine: laid out there as plain arrays under its fingerprint, once for all runs.

It lies in the user's cache, in `shipped`. What is there was complete when it got its name.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tfcsr.data import sources
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.data.mapped import Mapped
from tfcsr.errors import BusyError, DataError
from tfcsr.files import PART, locked, read_json, sync_folder, write_json, writing

ABOUT = "dataset.json"
ARRAYS = {"train_x": torch.uint8, "train_y": torch.int64, "test_x": torch.uint8, "test_y": torch.int64}
CHUNK = 1 << 26
WAIT_S = 0.1


def place(fingerprint: str) -> Path:
    """Where a dataset of this fingerprint lies, if it does."""
    if not fingerprint.isalnum():  # it becomes the name of a folder
        raise DataError(f"{fingerprint!r} is no fingerprint of data")
    return sources.cache() / "shipped" / fingerprint


def about(dataset: Dataset) -> dict[str, Any]:
    """All but its arrays, as JSON can hold it."""
    names = ("name", "class_names", "scale", "mean", "std")
    values = {name: getattr(dataset, name) for name in names}
    return values | {"shapes": {name: list(getattr(dataset, name).shape) for name in ARRAYS}}


def chunks(dataset: Dataset) -> Iterator[tuple[str, bytes]]:
    """The arrays one after another, in parts: they may be larger than the memory."""
    for name in ARRAYS:
        raw = np.ascontiguousarray(getattr(dataset, name)).reshape(-1).view(np.uint8)
        for start in range(0, len(raw), CHUNK):
            yield name, raw[start : start + CHUNK].tobytes()


def lay_out(fingerprint: str, values: dict[str, Any], parts: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
    """Make it, unless it is there; who comes second waits. Each part is fetched when its turn has come."""
    target = place(fingerprint)
    waiting = target.with_name(f".{fingerprint}")  # a folder of its own for the lock: the other one moves
    with writing(waiting):
        waiting.mkdir(parents=True, exist_ok=True)
    while not (target / ABOUT).exists():
        try:
            with locked(waiting):
                if not (target / ABOUT).exists():
                    _make(target, values | {"fingerprint": fingerprint}, parts)
        except BusyError:
            time.sleep(WAIT_S)


def _make(target: Path, values: dict[str, Any], parts: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
    beside = target.with_name(f".{target.name}{PART}")
    with writing(target):
        for left in (beside, target):  # what a killed process was making
            if left.exists():
                shutil.rmtree(left)
        beside.mkdir()
        with contextlib.ExitStack() as stack:
            files = {name: stack.enter_context((beside / name).open("wb")) for name in ARRAYS}
            for name, fetch in parts:
                files[name].write(fetch())
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        write_json(beside / ABOUT, values)
        beside.replace(target)
    sync_folder(target.parent)


def find(fingerprint: str) -> Dataset | None:
    """What lies here under this fingerprint."""
    folder = place(fingerprint)
    if not (folder / ABOUT).exists():
        return None
    values = read_json(folder / ABOUT)
    try:
        shapes = {name: tuple(map(int, values["shapes"][name])) for name in ARRAYS}
        arrays: dict[str, Any] = {
            name: Mapped(folder / name, 0, shapes[name], kind).tensor.numpy() for name, kind in ARRAYS.items()
        }
        return Dataset(
            name=str(values["name"]),
            **arrays,
            class_names=_texts(values["class_names"]),
            scale=float(values["scale"]),
            mean=tuple(map(float, values["mean"])),
            std=tuple(map(float, values["std"])),
            fingerprint=fingerprint,
        )
    except (KeyError, TypeError, ValueError, DataError) as error:
        raise DataError(f"{folder} is damaged ({error}): remove it, and it will come again") from None


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def adopt(name: str, dataset: Dataset) -> None:
    """Let the benchmark of somebody's own folder or file be known here by its name: what that means is elsewhere."""
    if BENCHMARKS.family(name) is None:
        return
    classes = len(dataset.class_names)
    entry = Benchmark(lambda data_dir, **options: dataset, classes=classes, tasks=classes)
    BENCHMARKS.add(name, options=BENCHMARKS.options(name))(entry)
