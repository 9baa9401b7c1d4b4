"""Images of your own in an .npz file: arrays x and y, or train_x, train_y, test_x and test_y."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.errors import DataError
from tfcsr.options import Option

if TYPE_CHECKING:
    import numpy as np

    from tfcsr.data.dataset import Dataset, Images, Labels

TASKS = 5
CHANNELS = (1, 3, 4)  # how many a last dimension has that stands in the wrong place
OPTIONS = (
    Option(
        "test_share",
        float,
        0.2,
        "share of each class that is kept for testing, where the data has no test part",
        low=0.01,
        high=0.9,
    ),
)


def load(path: Path, data_dir: str | None, *, test_share: float) -> "Dataset":
    import numpy as np

    from tfcsr.data import npz
    from tfcsr.data.dataset import Dataset, Moments, for_testing

    arrays = npz.read(path)
    known = np.unique(arrays.train_y)
    names = _texts(known)
    x, y = _images(path, arrays.train_x), _numbers(path, arrays.train_y, known)
    if arrays.test_x is not None and arrays.test_y is not None:
        test_x, test_y = _images(path, arrays.test_x), _numbers(path, arrays.test_y, known)
        missing = np.flatnonzero(np.bincount(test_y, minlength=len(names)) == 0)
        if len(missing):
            raise DataError(f"{path} has no test example of class {names[missing[0]]!r}: add some")
    else:
        aside = for_testing(y, test_share, names, str(path))
        x, y, test_x, test_y = x[~aside], y[~aside], x[aside], y[aside]
    moments = Moments(x.shape[1])
    moments.add(x)
    mean, std = moments.mean_std()
    return Dataset(f"npz:{path}", x, y, test_x, test_y, names, scale=255.0, mean=mean, std=std)


def _images(path: Path, x: "np.ndarray") -> "Images":
    if x.dtype != "uint8" or x.ndim not in (3, 4):
        raise DataError(
            f"{path} has examples that are {x.dtype} {x.shape}: a benchmark takes images, uint8 [N, C, H, W] or"
            " [N, H, W]"
        )
    if x.ndim == 4 and x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS:
        raise DataError(
            f"{path} has images {x.shape}, which look like [N, H, W, C]: a benchmark takes [N, C, H, W], as"
            " x.transpose(0, 3, 1, 2) is"
        )
    return x if x.ndim == 4 else x[:, None]


def _numbers(path: Path, y: "np.ndarray", known: "np.ndarray") -> "Labels":
    """Labels as their place among the known ones."""
    import numpy as np

    if y.dtype.kind != known.dtype.kind and {y.dtype.kind, known.dtype.kind} != {"i", "u"}:
        raise DataError(f"{path} has labels of {known.dtype} for training and {y.dtype} for testing: use one kind")
    places = np.minimum(np.searchsorted(known, y), len(known) - 1)
    strange = np.flatnonzero(known[places] != y)
    if len(strange):
        name = _texts(y[strange[:1]])[0]
        raise DataError(f"{path} has test examples of class {name!r} and none for training: add some or remove them")
    return places.astype(np.int64)


def _texts(labels: "np.ndarray") -> tuple[str, ...]:
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in labels.tolist())


@functools.lru_cache(maxsize=8)
def _classes(path: Path, *stamp: int) -> int:
    import numpy as np

    from tfcsr.data import npz

    return len(np.unique(npz.labels(path)))


def benchmark(rest: str) -> Benchmark:
    """The benchmark of a file: its classes, in up to five tasks."""
    try:
        path = Path(rest).expanduser()
        known = path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"there is no file {rest} ({reason}): give an .npz with arrays x and y") from None
    # A spec asks more than once.
    classes = _classes(path, known.st_size, known.st_mtime_ns, known.st_ino)
    return Benchmark(functools.partial(load, path), classes=classes, tasks=min(TASKS, classes), options=OPTIONS)


BENCHMARKS.add("npz", options=OPTIONS)(cast("Any", benchmark))
