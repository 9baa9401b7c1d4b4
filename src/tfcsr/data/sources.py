"""Where the files of the datasets are, how they are fetched, and whether they are the official ones."""

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from tfcsr.errors import DataError

if TYPE_CHECKING:
    import requests

    from tfcsr.data.dataset import Dataset

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")

ABOUT = {
    "digits": "1,797 grey images of 8x8 pixels, 10 classes",
    "mnist": "70,000 grey images of 28x28 pixels, 10 classes",
    "fashion-mnist": "70,000 grey images of 28x28 pixels, 10 classes of clothes",
    "cifar10": "60,000 colour images of 32x32 pixels, 10 classes",
    "cifar100": "60,000 colour images of 32x32 pixels, 100 classes",
}


@dataclass(frozen=True)
class Download:
    """A file as the mirrors serve it. `path` and those it unpacks to are relative to the data folder."""

    path: str
    size: int
    md5: str
    unpacks_to: tuple[str, ...]


def _idx(path: str, size: int, md5: str) -> Download:
    return Download(f"{path}.gz", size, md5, (path,))


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "digits": (),
    "mnist": (
        _idx("MNIST/raw/train-images-idx3-ubyte", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        _idx("MNIST/raw/train-labels-idx1-ubyte", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
        _idx("MNIST/raw/t10k-images-idx3-ubyte", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
        _idx("MNIST/raw/t10k-labels-idx1-ubyte", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    "fashion-mnist": (
        _idx("FashionMNIST/raw/train-images-idx3-ubyte", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        _idx("FashionMNIST/raw/train-labels-idx1-ubyte", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
        _idx("FashionMNIST/raw/t10k-images-idx3-ubyte", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
        _idx("FashionMNIST/raw/t10k-labels-idx1-ubyte", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    "cifar10": (
        Download(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            (
                *(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)),
                "cifar-10-batches-bin/test_batch.bin",
            ),
        ),
    ),
    "cifar100": (
        Download(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "03b5dce01913d631647c71ecec9e9cb8",
            ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin"),
        ),
    ),
}

MIRRORS: dict[str, tuple[str, ...]] = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/",),
    "cifar100": ("https://www.cs.toronto.edu/~kriz/",),
}

# Where a dataset lies if the system brought it, here Debian's package dataset-fashion-mnist: looked at last.
INSTALLED = {"fashion-mnist": Path("/usr/share/datasets")}

# MD5 of each dataset's unpacked files, and of the archive that is read as it is.
OFFICIAL: dict[str, dict[str, str]] = {
    "mnist": {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    "cifar10": {
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    "cifar100": {
        "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
}

SCHEME = "https://"
TIMEOUT_S = (5.0, 15.0)  # to connect, between two packets


def load(name: str, data_dir: str | None = None) -> "Dataset":
    from tfcsr.data import digits

    _require_known(name)
    if name == "digits":
        return digits.load()
    dataset: Dataset = _module(name).load(data_dir)
    return dataset


def check(name: str, data_dir: str | None = None) -> list[tuple[str, str]]:
    """Load and validate the dataset, then say for each file whether it is the official one."""
    load(name, data_dir)
    if name == "digits":
        return [("embedded in the package", "ok")]
    states = {True: "ok, official checksum", False: "ok, content valid, not the official file"}
    return [(path.name, states[_is_official(name, path)]) for path in _paths(name, data_dir)]


def describe(name: str, data_dir: str | None = None) -> tuple[str | None, str]:
    """Where the dataset is (None: nowhere) and what it is, without reading it."""
    _require_known(name)
    if name == "digits":
        return "the package", ABOUT[name]
    try:
        found = _paths(name, data_dir)
    except DataError:
        return None, ABOUT[name]
    return str(found[0] if len(found) == 1 else found[0].parent), ABOUT[name]


def roots(data_dir: str | None) -> list[Path]:
    """The folders to look in. One that was asked for is the only one: a typo must not be answered from elsewhere."""
    if data_dir is not None:
        return [Path(data_dir).expanduser()]
    from_environment = os.environ.get("TFCSR_DATA")
    return [*([Path(from_environment).expanduser()] if from_environment else []), cache()]


def find(name: str, candidates: Sequence[str], data_dir: str | None) -> Path:
    """The first of the candidate paths that exists under a root."""
    places = roots(data_dir)
    if data_dir is None and name in INSTALLED:
        places.append(INSTALLED[name])
    for path in (root / candidate for root in places for candidate in candidates):
        with reading(name, path):
            if path.exists():
                return path
    folder = str(Path("DIR", DOWNLOADS[name][0].path).parent)
    raise DataError(
        f"{name}: no {Path(candidates[0]).name} in {' or '.join(map(str, places))}: run `tfcsr data fetch {name}"
        f"{'' if data_dir is None else f' --data-dir {data_dir}'}`, or put {_file_names(name)} into {folder} "
        "and pass --data-dir DIR or set TFCSR_DATA=DIR"
    )


def users_own(name: str, found: Sequence[Path]) -> tuple[Path, ...]:
    """The files, unless one of them is the system's: a dataset that does not name those leaves nothing beside them."""
    system = INSTALLED.get(name)
    return () if system is not None and any(path.is_relative_to(system) for path in found) else tuple(found)


def read(name: str, path: Path, *, at_most: int) -> bytes:
    """The content of a file, decompressed where its name ends in .gz; an error if there is more of it."""
    with reading(name, path):
        if path.exists() and not path.is_file():
            raise damaged(name, path, "not a regular file")
        with _open(path) as file:
            raw = file.read(at_most + 1)
    if len(raw) > at_most:
        raise damaged(name, path, f"more than {at_most} bytes, expected no more")
    return raw


@contextmanager
def reading(name: str, path: Path) -> Iterator[None]:
    """Turn what gzip or the operating system says about a file into our error."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(name, path, f"not an intact gzip file ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); make it readable or move it") from None


def damaged(name: str, path: Path, problem: str) -> DataError:
    return DataError(f"{path}: {problem}; delete it and run `tfcsr data fetch {name}`")


def fetch(name: str, data_dir: str | None = None) -> list[Path]:
    """Download what is not yet there into `data_dir`, or into the user's cache, and give the files."""
    _require_known(name)
    root = cache() if data_dir is None else Path(data_dir).expanduser()
    found: list[Path] = []
    for item in DOWNLOADS[name]:
        unpacked = [root / path for path in item.unpacks_to]
        if all(path.is_file() and _is_official(name, path) for path in unpacked):
            found += unpacked
        else:
            found.append(_fetch_one(name, item, root))
    return found


def _fetch_one(name: str, item: Download, root: Path) -> Path:
    import requests

    target = root / item.path
    tried = []
    for mirror in MIRRORS[name]:
        url = mirror + target.name
        try:
            _download(url, target, item)
            return target
        except requests.RequestException as error:
            tried.append(f"{url} ({_reason(error)})")
        except _RefusedError as error:
            tried.append(f"{url} ({error})")
        except ValueError:  # pooch's word for it
            tried.append(f"{url} (wrong checksum, expected md5 {item.md5})")
        except OSError as error:
            problem = f"cannot be written ({error.strerror or error})"
            raise DataError(f"{target}: {problem}; make room for it or pass another --data-dir") from None
    raise DataError(
        f"{name}: cannot download {target.name}: tried {', '.join(tried)}; "
        f"get {_file_names(name)} by other means and put them into {target.parent}"
    )


def _download(url: str, target: Path, item: Download) -> None:
    """Have pooch fetch one file: under a temporary name until its checksum is right, not at all if it is there."""
    import pooch  # type: ignore[import-untyped]

    def download(url: str, output_file: str, _: object) -> None:
        bar = _Bar(target.name) if sys.stderr.isatty() else None
        options = {
            "timeout": TIMEOUT_S,
            "hooks": {"response": _refuse_other_schemes},
            # A server that packs or unpacks the file on the way would change its checksum.
            "headers": {"Accept-Encoding": "identity"},
        }
        try:
            with Path(output_file).open("wb") as file:
                downloader = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=1 << 16, **options)
                downloader(url, _Limited(file, item.size), None)
        finally:
            if bar:
                bar.close()

    pooch.get_logger().setLevel("ERROR")
    pooch.retrieve(url, f"md5:{item.md5}", fname=target.name, path=target.parent, downloader=download)


class _RefusedError(Exception):
    """A download that we broke off."""


class _Limited:
    """The file under download, which may not outgrow the size it is known to have."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.written = file, size, 0

    def write(self, chunk: bytes) -> None:
        self.written += len(chunk)
        if self.written > self.size:
            raise _RefusedError(f"more than the expected {self.size} bytes")
        self.file.write(chunk)

    def flush(self) -> None:
        self.file.flush()


class _Bar:
    """A progress bar with the attribute and methods that pooch expects of one."""

    def __init__(self, text: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self.total = 0
        self.progress = Progress(*columns, console=Console(stderr=True))
        self.task = self.progress.add_task(text, total=None)
        self.progress.start()

    def update(self, count: int) -> None:
        self.progress.update(self.task, total=self.total or None, advance=count)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        self.progress.stop()


def _refuse_other_schemes(response: "requests.Response", **_: object) -> None:
    """Called for every answer, so that a redirect cannot lead away from https either."""
    if not response.url.startswith(SCHEME):
        raise _RefusedError(f"led to {response.url}, which is not {SCHEME}")


def _reason(error: "requests.RequestException") -> str:
    # requests' own texts are long and nested; the kind of error says what a user can act on.
    return type(error).__name__ if error.response is None else f"HTTP {error.response.status_code}"


def _paths(name: str, data_dir: str | None) -> list[Path]:
    found: list[Path] = _module(name).paths(data_dir)
    return found


def _module(name: str) -> ModuleType:
    """What reads the dataset."""
    from tfcsr.data import cifar10, cifar100, fashion_mnist, mnist

    return {"mnist": mnist, "fashion-mnist": fashion_mnist, "cifar10": cifar10, "cifar100": cifar100}[name]


def cache() -> Path:
    import pooch

    return Path(pooch.os_cache("tfcsr"))


def _file_names(name: str) -> str:
    return ", ".join(Path(item.path).name for item in DOWNLOADS[name])


def _require_known(name: str) -> None:
    if name not in NAMES:
        raise DataError(f"unknown dataset {name!r}: use one of {', '.join(NAMES)}")


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _is_official(name: str, path: Path) -> bool:
    """Whether the content (of the one archive: the file itself) has the official checksum."""
    official = OFFICIAL[name]
    as_it_is = path.name in official
    expected = official[path.name if as_it_is else path.name.removesuffix(".gz")]
    with reading(name, path), path.open("rb") if as_it_is else _open(path) as file:
        return hashlib.file_digest(file, "md5").hexdigest() == expected
