"""The fingerprint of a dataset, kept beside its files: who asks again need not read them all."""

import contextlib
import json
import os
from pathlib import Path

import numpy as np

from tfcsr import fingerprint
from tfcsr.data.dataset import Dataset


def of_dataset(dataset: Dataset) -> str:
    """Of every image, label and number that decides what is trained on; what classes are called does not."""
    if dataset.fingerprint:
        return dataset.fingerprint
    beside, files = _beside(dataset)
    if beside is not None:
        with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
            kept = json.loads(beside.read_bytes())
            if kept.get("files") == files and isinstance(kept.get("fingerprint"), str):
                return str(kept["fingerprint"])
    settings = repr((len(dataset.class_names), dataset.scale, dataset.mean, dataset.std)).encode()
    arrays = (dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y)
    found = fingerprint.of_arrays([*arrays, np.frombuffer(settings, np.uint8)])
    if beside is not None:
        with contextlib.suppress(OSError):  # a folder that cannot be written to is no reason to stop
            part = beside.with_name(f"{beside.name}.{os.getpid()}")
            part.write_text(json.dumps({"files": files, "fingerprint": found}), encoding="utf-8")
            part.replace(beside)
    return found


def _beside(dataset: Dataset) -> tuple[Path | None, dict[str, list[int]]]:
    """Where it is kept, and what the files are known by."""
    if not dataset.files:
        return None, {}
    stats = [(path, path.stat()) for path in dataset.files]
    files = {path.name: [stat.st_size, stat.st_mtime_ns, stat.st_ino] for path, stat in stats}
    return dataset.files[0].parent / f".{dataset.name}.fingerprint.json", files
