"""CIFAR-100 (fine labels) from its binary version, as the unpacked folder or straight from the archive."""

import gzip
import tarfile
from pathlib import Path

import numpy as np

from tfcsr.data import sources
from tfcsr.data.dataset import Dataset, Images, Labels

FOLDER = "cifar-100-binary"
ARCHIVE = "cifar-100-binary.tar.gz"
CLASS_NAMES = "fine_label_names.txt"
FINE, COARSE = 100, 20
PER_CLASS = {"train.bin": 500, "test.bin": 100}
RECORD = 2 + 3 * 32 * 32  # coarse label, fine label, the red, green and blue planes
CLASS_NAMES_AT_MOST = 4096
READS_AT_END = 10  # a sound archive takes one or two
ARCHIVE_OVERHEAD = 1 << 20  # tar headers, padding and the small text files


def paths(data_dir: str | None = None) -> list[Path]:
    """The files that `load` reads: train.bin and test.bin, or the archive alone."""
    found = [sources.find("cifar100", [f"{FOLDER}/{name}", ARCHIVE], data_dir) for name in PER_CLASS]
    # An incomplete folder is passed over, so that fetching repairs it.
    return [path for path in found if path.name == ARCHIVE][:1] or found


def load(data_dir: str | None = None) -> Dataset:
    found = paths(data_dir)
    raw = _from_archive(found[0]) if len(found) == 1 else _from_folder(found)
    train_x, train_y = read_records(found[0], raw["train.bin"], PER_CLASS["train.bin"])
    test_x, test_y = read_records(found[-1], raw["test.bin"], PER_CLASS["test.bin"])
    return Dataset(
        name="cifar100",
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        class_names=_class_names(
            found[0] if len(found) == 1 else found[0].with_name(CLASS_NAMES), raw.get(CLASS_NAMES)
        ),
        scale=255.0,
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
        files=tuple(found),
    )


def read_records(path: Path, raw: bytes, per_class: int) -> tuple[Images, Labels]:
    """The images and fine labels of `raw`, which came from `path`."""
    size = FINE * per_class * RECORD
    if len(raw) != size:
        raise sources.damaged("cifar100", path, f"{len(raw)} bytes of records, expected {size}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, RECORD)
    for kind, labels, classes in (("coarse", records[:, 0], COARSE), ("fine", records[:, 1], FINE)):
        if labels.max() >= classes:
            raise sources.damaged("cifar100", path, f"{kind} label {labels.max()}, expected 0 to {classes - 1}")
    y = records[:, 1].astype(np.int64)
    counts = np.bincount(y, minlength=FINE)
    wrong = np.flatnonzero(counts != per_class)
    if len(wrong):
        problem = f"{counts[wrong[0]]} images of class {wrong[0]}, expected {per_class}"
        raise sources.damaged("cifar100", path, problem)
    # Copied, because torch refuses to share memory that is read-only.
    return records[:, 2:].reshape(-1, 3, 32, 32).copy(), y


def _sizes() -> dict[str, int]:
    """How large each file may be at most."""
    return {name: FINE * count * RECORD for name, count in PER_CLASS.items()} | {CLASS_NAMES: CLASS_NAMES_AT_MOST}


def _from_folder(found: list[Path]) -> dict[str, bytes]:
    class_names = found[0].with_name(CLASS_NAMES)
    present = [*found, class_names] if class_names.exists() else found
    return {path.name: sources.read("cifar100", path, at_most=_sizes()[path.name]) for path in present}


def _from_archive(path: Path) -> dict[str, bytes]:
    try:
        with sources.reading("cifar100", path), _BoundedGzip(path, sum(_sizes().values()) + ARCHIVE_OVERHEAD) as stream:
            raw = _members(path, stream)
            # The checksum of a gzip file is at its end, past what tar reads.
            while stream.read(1 << 16):
                pass
    # A header of nonsense takes tarfile to the last two of these.
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise sources.damaged("cifar100", path, f"not an intact archive ({error})") from None
    missing = PER_CLASS.keys() - raw.keys()
    if missing:
        raise sources.damaged("cifar100", path, f"no file {FOLDER}/{min(missing)} in it")
    return raw


def _members(path: Path, stream: "_BoundedGzip") -> dict[str, bytes]:
    wanted = {f"{FOLDER}/{name}": (name, size) for name, size in _sizes().items()}
    raw = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.name not in wanted:
                continue
            name, size = wanted[member.name]
            content = archive.extractfile(member) if member.isreg() and member.size <= size else None
            if content is None:
                problem = f"{member.name} in it is not a regular file of at most {size} bytes"
                raise sources.damaged("cifar100", path, problem)
            raw[name] = content.read()
    return raw


class _BoundedGzip(gzip.GzipFile):
    """A stream on which no header can make tarfile fill the memory, or read on for hours past the end."""

    def __init__(self, path: Path, at_most: int) -> None:
        super().__init__(path)
        self.path, self.at_most = path, at_most
        self.count = self.reads_at_end = 0

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(size)
        self.count += len(chunk)
        if self.count > self.at_most:
            raise sources.damaged("cifar100", self.path, f"unpacks to more than {self.at_most} bytes")
        self.reads_at_end += not chunk
        if self.reads_at_end > READS_AT_END:
            raise tarfile.ReadError("unexpected end of data")
        return chunk


def _class_names(path: Path, raw: bytes | None) -> tuple[str, ...]:
    if raw is None:
        return tuple(f"class {label}" for label in range(FINE))
    names = tuple(raw.decode(errors="replace").split())
    different = len(set(names))
    if len(names) != FINE or different != FINE:
        problem = f"{len(names)} class names, {different} different, expected {FINE}"
        raise sources.damaged("cifar100", path, problem)
    return names
