"""The binary versions of CIFAR-10 and CIFAR-100: as the unpacked folder, or straight from the archive."""

import gzip
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfcsr.data import sources
from tfcsr.data.dataset import Dataset, Images, Labels

PIXELS = 3 * 32 * 32  # the red, green and blue planes
CLASS_NAMES_AT_MOST = 4096
READS_AT_END = 10  # a sound archive takes one or two
ARCHIVE_OVERHEAD = 1 << 20  # tar headers, padding and the small text files


@dataclass(frozen=True)
class Split:
    """The files of a split, all of one size, and how many images of each class they have together."""

    files: tuple[str, ...]
    per_class: int


@dataclass(frozen=True)
class Layout:
    """What is where in the files of a dataset. A record is a byte for each of the `labels`, of which the last is the
    class, and the pixels.
    """

    name: str
    folder: str
    archive: str
    class_names: str
    labels: Mapping[str, int]
    """What each label is called, and how many of its kind there are."""
    train: Split
    test: Split

    @property
    def classes(self) -> int:
        return list(self.labels.values())[-1]

    @property
    def record(self) -> int:
        return len(self.labels) + PIXELS

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train.files, *self.test.files)

    def size(self, split: Split) -> int:
        """Of one of the split's files."""
        return self.classes * split.per_class // len(split.files) * self.record

    def sizes(self) -> dict[str, int]:
        """How large each file may be at most."""
        of_records = {name: self.size(split) for split in (self.train, self.test) for name in split.files}
        return of_records | {self.class_names: CLASS_NAMES_AT_MOST}


def paths(layout: Layout, data_dir: str | None) -> list[Path]:
    """The files that `load` reads: those with records, or the archive alone."""
    found = [sources.find(layout.name, [f"{layout.folder}/{name}", layout.archive], data_dir) for name in layout.files]
    # An incomplete folder is passed over, so that fetching repairs it.
    return [path for path in found if path.name == layout.archive][:1] or found


def load(layout: Layout, found: list[Path], mean: tuple[float, ...], std: tuple[float, ...]) -> Dataset:
    """The dataset from these files, which `paths` has found."""
    if len(found) == 1:
        raw, places = _from_archive(layout, found[0]), dict.fromkeys(layout.files, found[0])
    else:
        raw, places = _from_folder(layout, found), dict(zip(layout.files, found, strict=True))
    train_x, train_y = read_split(layout, layout.train, places, raw)
    test_x, test_y = read_split(layout, layout.test, places, raw)
    return Dataset(
        name=layout.name,
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        class_names=_class_names(
            layout, found[0] if len(found) == 1 else found[0].with_name(layout.class_names), raw.get(layout.class_names)
        ),
        scale=255.0,
        mean=mean,
        std=std,
        files=tuple(found),
    )


def read_split(
    layout: Layout, split: Split, places: Mapping[str, Path], raw: Mapping[str, bytes]
) -> tuple[Images, Labels]:
    """The images and classes in the `raw` content of the split's files, which came from these places."""
    parts = [_records(layout, layout.size(split), places[name], raw[name]) for name in split.files]
    before = len(layout.labels)
    y = np.concatenate([part[:, before - 1] for part in parts]).astype(np.int64)
    counts = np.bincount(y, minlength=layout.classes)
    wrong = np.flatnonzero(counts != split.per_class)
    if len(wrong):
        problem = f"{counts[wrong[0]]} images of class {wrong[0]}, expected {split.per_class}"
        # A class may lie in several files: none of them alone has the wrong number of it.
        path = places[split.files[0]]
        several = len({places[name] for name in split.files}) > 1
        raise sources.damaged(layout.name, path.parent if several else path, problem)
    # Joined, so copied: torch refuses to share memory that is read-only.
    return np.concatenate([part[:, before:] for part in parts]).reshape(-1, 3, 32, 32), y


def _records(layout: Layout, size: int, path: Path, raw: bytes) -> Images:
    """The records of a file, in rows, with labels there are."""
    if len(raw) != size:
        raise sources.damaged(layout.name, path, f"{len(raw)} bytes of records, expected {size}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, layout.record)
    for at, (kind, number) in enumerate(layout.labels.items()):
        highest = records[:, at].max()
        if highest >= number:
            raise sources.damaged(layout.name, path, f"{kind} {highest}, expected 0 to {number - 1}")
    return records


def _from_folder(layout: Layout, found: list[Path]) -> dict[str, bytes]:
    class_names = found[0].with_name(layout.class_names)
    present = [*found, class_names] if class_names.exists() else found
    sizes = layout.sizes()
    return {path.name: sources.read(layout.name, path, at_most=sizes[path.name]) for path in present}


def _from_archive(layout: Layout, path: Path) -> dict[str, bytes]:
    at_most = sum(layout.sizes().values()) + ARCHIVE_OVERHEAD
    try:
        with sources.reading(layout.name, path), _BoundedGzip(layout.name, path, at_most) as stream:
            raw = _members(layout, path, stream)
            # The checksum of a gzip file is at its end, past what tar reads.
            while stream.read(1 << 16):
                pass
    # A header of nonsense takes tarfile to the last two of these.
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise sources.damaged(layout.name, path, f"not an intact archive ({error})") from None
    missing = set(layout.files) - raw.keys()
    if missing:
        raise sources.damaged(layout.name, path, f"no file {layout.folder}/{min(missing)} in it")
    return raw


def _members(layout: Layout, path: Path, stream: "_BoundedGzip") -> dict[str, bytes]:
    wanted = {f"{layout.folder}/{name}": (name, size) for name, size in layout.sizes().items()}
    raw = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.name not in wanted:
                continue
            name, size = wanted[member.name]
            content = archive.extractfile(member) if member.isreg() and member.size <= size else None
            if content is None:
                problem = f"{member.name} in it is not a regular file of at most {size} bytes"
                raise sources.damaged(layout.name, path, problem)
            raw[name] = content.read()
    return raw


class _BoundedGzip(gzip.GzipFile):
    """A stream on which no header can make tarfile fill the memory, or read on for hours past the end."""

    def __init__(self, dataset: str, path: Path, at_most: int) -> None:
        super().__init__(path)
        self.dataset, self.path, self.at_most = dataset, path, at_most
        self.count = self.reads_at_end = 0

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(size)
        self.count += len(chunk)
        if self.count > self.at_most:
            raise sources.damaged(self.dataset, self.path, f"unpacks to more than {self.at_most} bytes")
        self.reads_at_end += not chunk
        if self.reads_at_end > READS_AT_END:
            raise tarfile.ReadError("unexpected end of data")
        return chunk


def _class_names(layout: Layout, path: Path, raw: bytes | None) -> tuple[str, ...]:
    if raw is None:
        return tuple(f"class {label}" for label in range(layout.classes))
    names = tuple(raw.decode(errors="replace").split())
    different = len(set(names))
    if len(names) != layout.classes or different != layout.classes:
        problem = f"{len(names)} class names, {different} different, expected {layout.classes}"
        raise sources.damaged(layout.name, path, problem)
    return names
