"""A folder of images packed once into one file of pixels, and from then on read without opening an image again.

The file lies in `.tfcsr` within the folder, or in the user's data folder where that cannot be written to. Beside it a
manifest says what it was made of. What is there is used only if the images are listed as they were then.
"""

import contextlib
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tfcsr.data import folders, sources
from tfcsr.data.dataset import Images, Labels, Moments, for_testing
from tfcsr.data.folders import File, UnreadableError
from tfcsr.data.mapped import Mapped
from tfcsr.errors import BusyError, DataError, OutputError
from tfcsr.files import locked, sync_folder, write_json
from tfcsr.garbage import uncollected

FORMAT = 1
PLACE = ".tfcsr"
LARGEST_SIDE = 1 << 14
CHUNK_BYTES, CHUNK_FILES = 1 << 25, 512  # what is decoded and in memory at once
WAIT_S = 0.1
LETTERS = 16
# What nonsense in a manifest or a journal may raise.
NONSENSE = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError, DataError)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Packed:
    """Images [N, C, H, W] and labels, those for training first: `train` says how many. `mean` and `std` are theirs, per
    channel, of pixels over 255. `skipped` are the files that could not be read, and `reasons` says why.
    """

    x: Mapped
    y: Labels
    train: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str
    skipped: tuple[str, ...]
    reasons: tuple[str, ...]
    path: Path


def pack(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    test_share: float = 0.0,
    skip_unreadable: bool = False,
    data_dir: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Packed:
    """The folder as it is now, packed before or packed now.

    Without a size, (height, width) or the side of a square, all images must have one. Without channels it is 1 if all
    are grey, else 3. Where there is no `test/`, `test_share` of each class is for testing. Who was stopped goes on
    where it was; who comes second waits.
    """
    folder = Path(folder)
    work = _Work(folder, _checked_size(size), _checked_channels(channels), _checked_share(test_share))
    for place in _places(folder, data_dir):
        if (found := work.opened(place)) is not None:
            return work.judged(found, skip_unreadable)
    with ExitStack() as stack:
        place = _claimed(_places(folder, data_dir), stack)
        # Somebody else may have been at it until now.
        found = work.opened(place) or work.made(place, progress)
    return work.judged(found, skip_unreadable)


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = size if isinstance(size, tuple) else (size, size)
    if len(pair) != 2 or not all(isinstance(side, int) and 1 <= side <= LARGEST_SIDE for side in pair):
        raise DataError(f"size {size} is impossible: give pixels from 1 to {LARGEST_SIDE}, or (height, width)")
    return pair


def _checked_channels(channels: int | None) -> int | None:
    if channels not in (None, 1, 3):
        raise DataError(f"channels {channels} is impossible: use 1 for grey images, 3 for colour")
    return channels


def _checked_share(share: float) -> float:
    if not 0 <= share < 1:
        raise DataError(f"test_share {share:g} is impossible: it must be at least 0 and below 1")
    return share


def _places(folder: Path, data_dir: str | None) -> Iterator[Path]:
    """Where a pack may lie: with the images, or in a folder of the user's by their path."""
    yield folder / PLACE
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:LETTERS]
    for root in sources.roots(data_dir):
        yield root / "packed" / name


def _claimed(places: Iterator[Path], stack: ExitStack) -> Path:
    """The first place that can be written to, to ourselves once whoever is at work there is done."""
    problem = None
    for place in places:
        try:
            with _writing(place):
                place.mkdir(parents=True, exist_ok=True)
            while True:
                try:
                    stack.enter_context(locked(place))
                    return place
                except BusyError:
                    time.sleep(WAIT_S)
        except OutputError as error:
            problem = error
    assert problem is not None
    raise problem


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; make room there, or set TFCSR_DATA"
        ) from None


class _State:
    """How far a pack has come: files seen, rows kept, and what these amount to."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape, self.row = shape, math.prod(shape)
        self.done = self.rows = 0
        self.skipped: list[tuple[int, str]] = []
        self.moments = Moments(shape[0])
        self.content = hashlib.sha256()
        self.journal = 0  # bytes of it that were found right

    def add(self, x: Images, done: int, skipped: list[tuple[int, str]], train: int) -> None:
        """A chunk's rows, of which the first `train` are for training."""
        self.done = done
        self.rows += len(x)
        self.skipped += skipped
        self.moments.add(x[:train])
        self.content.update(x.reshape(-1).data)


class _Work:
    """One folder under certain settings: what there is to pack, and what may be there of it."""

    def __init__(self, folder: Path, size: tuple[int, int] | None, channels: int | None, share: float) -> None:
        with uncollected():
            self._list(folder, size, channels, share)

    def _list(self, folder: Path, size: tuple[int, int] | None, channels: int | None, share: float) -> None:
        listing = folders.list_images(folder)
        self.folder, self.class_names = folder, listing.class_names
        self.size, self.channels = size, channels
        self.files, self.train = listing.train + listing.test, len(listing.train)
        # What lies in test/ is for testing, whatever the share.
        share = 0.0 if listing.test else share
        self.key = f"{'any' if size is None else '{}x{}'.format(*size)}-{channels or 'any'}"
        if share:
            self.key += f"-{share!r}"
        self.listing = self._digest()
        self.labels: Labels = np.array([file.label for file in self.files], np.int64)
        if share:
            aside = for_testing(self.labels, share, self.class_names, str(folder))
            order = np.argsort(aside, kind="stable")
            self.files, self.labels = [self.files[i] for i in order.tolist()], self.labels[order]
            self.train -= int(aside.sum())

    def _digest(self) -> str:
        """Of the listing and the settings: whatever is packed anew if it changes."""
        lines = [f"{path}\0{size}\0{mtime_ns}" for path, _, size, mtime_ns in self.files]
        return hashlib.sha256(os.fsencode("\n".join([f"{FORMAT} {self.key}", *lines]))).hexdigest()

    # What is there.

    def opened(self, place: Path) -> Packed | None:
        """What was packed there, if it is what packing now would give."""
        with contextlib.suppress(*NONSENSE):
            return self._opened(place)
        return None

    def _opened(self, place: Path) -> Packed | None:
        path, manifest = place / f"{self.key}.images", place / f"{self.key}.json"
        kept = json.loads(manifest.read_bytes())
        if kept.pop("check") != _check(kept) or kept["listing"] != self.listing:
            return None
        shape = self._shape_of(kept["shape"])
        skipped = [(_index(i, len(self.files)), str(reason)) for i, reason in kept["skipped"]]
        rows = len(self.files) - len(skipped)
        mean, std = _numbers(kept["mean"], shape[0]), _numbers(kept["std"], shape[0])
        sha256 = str(kept["sha256"])
        if len(dict(skipped)) < len(skipped) or min(std) <= 0 or path.stat().st_size != rows * math.prod(shape):
            return None
        x = Mapped(path, 0, (rows, *shape))
        # After it is mapped: had the file been replaced before, this would tell.
        if kept["file"] != _stamp(path):
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    return None
            with contextlib.suppress(OutputError):  # it is only asked again next time
                _write_manifest(manifest, kept | {"file": _stamp(path)})
        if self._mended(skipped, shape):
            return None
        return self._packed(x, skipped, mean, std, sha256, path)

    def _shape_of(self, value: Any) -> tuple[int, int, int]:
        channels, height, width = value
        if not all(type(v) is int and v >= 1 for v in value) or channels not in (1, 3):
            raise ValueError(value)
        if self.size not in (None, (height, width)) or self.channels not in (None, channels):
            raise ValueError(value)
        return channels, height, width

    def _mended(self, skipped: list[tuple[int, str]], shape: tuple[int, int, int]) -> bool:
        """Whether a file that could not be read now can be; permissions do not show in a listing."""
        with folders.quiet():
            return any(not isinstance(self._decoded(self.files[i], shape), str) for i, _ in skipped)

    def _packed(
        self,
        x: Mapped,
        skipped: list[tuple[int, str]],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        sha256: str,
        path: Path,
    ) -> Packed:
        away = {i for i, _ in skipped}
        y = np.delete(self.labels, sorted(away))
        train = self.train - sum(i < self.train for i in away)
        shape = tuple(x.tensor.shape)
        known = hashlib.sha256(f"{sha256} {shape} {train} {len(self.class_names)}".encode() + y.tobytes()).hexdigest()
        names, reasons = tuple(self.files[i].path for i, _ in skipped), tuple(reason for _, reason in skipped)
        return Packed(x, y, train, self.class_names, mean, std, known[:LETTERS], names, reasons, path)

    def judged(self, found: Packed, skip_unreadable: bool) -> Packed:
        """The pack, unless too much of it could not be read."""
        if not found.skipped:
            return found
        reasons = dict(zip(found.skipped, found.reasons, strict=True))
        for part, listed, kept in (
            ("", self.files[: self.train], found.y[: found.train]),
            ("test ", self.files[self.train :], found.y[found.train :]),
        ):
            for label in sorted({file.label for file in listed} - set(kept.tolist())):
                failed = [(file.path, reasons[file.path]) for file in listed if file.label == label]
                raise DataError(
                    f"{self.folder} has no {part}image of class {self.class_names[label]!r}:"
                    f" {folders.name_unreadable(failed, len(failed), 5)}; mend them"
                )
        if not skip_unreadable:
            named = folders.name_unreadable([*reasons.items()], len(self.files), 5)
            raise DataError(
                f"{self.folder}: {named}; mend or remove them, or give --skip-unreadable (skip_unreadable=True)"
            )
        return found

    # What is made.

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """What was asked for, or what the images' headers say."""
        if self.size is not None and self.channels is not None:
            return (self.channels, *self.size)
        sizes: dict[tuple[int, int], str] = {}
        grey = True
        with folders.quiet(), ThreadPoolExecutor(folders.threads()) as pool:
            headers = _each(pool, self._header, self.files)
        for file, found in zip(self.files, headers, strict=True):
            if found is not None:
                sizes.setdefault(found[0], file.path)
                grey = grey and found[1]
        if self.size is None and len(sizes) > 1:
            least, most = min(sizes, key=_area), max(sizes, key=_area)
            raise DataError(
                f"the images of {self.folder} differ in size, from {folders.pixels(least)} ({sizes[least]}) to"
                f" {folders.pixels(most)} ({sizes[most]}): give --size N (size=N)"
            )
        # Where no file can be read, none will be packed: any size will do.
        size = self.size or next(iter(sizes), (1, 1))
        return (self.channels or (1 if grey else 3), *size)

    def _header(self, file: File) -> tuple[tuple[int, int], bool] | None:
        try:
            return folders.header(f"{self.folder}/{file.path}")
        except UnreadableError:
            return None  # it is named when it comes to its pixels

    def _decoded(self, file: File, shape: tuple[int, int, int]) -> Images | str:
        """The image, or why there is none."""
        try:
            x = folders.decoded(f"{self.folder}/{file.path}", self.size, shape[0])
        except UnreadableError as error:
            return error.reason
        if x.shape != shape:
            return f"{folders.pixels(x.shape[1:])}, the others have {folders.pixels(shape[1:])}"
        return x

    def made(self, place: Path, progress: Progress) -> Packed:
        """Packed, going on where the journal says that somebody stopped."""
        path, part, journal = (place / f"{self.key}{suffix}" for suffix in (".images", ".part", ".journal"))
        progress(0, len(self.files))
        state = self._resumed(part, journal)
        self._require_room(part, state)
        with ExitStack() as stack:
            # Without a buffer: closing one would try again to write what the disk has refused.
            with _writing(part):
                file, log = (stack.enter_context(name.open("ab", buffering=0)) for name in (part, journal))
                file.truncate(state.rows * state.row)
                log.truncate(state.journal)
                if not state.journal:
                    _write(log, self._head.encode())
            stack.enter_context(folders.quiet())
            pool = stack.enter_context(ThreadPoolExecutor(folders.threads()))
            step = min(CHUNK_FILES, max(folders.threads(), CHUNK_BYTES // state.row))
            while state.done < len(self.files):
                progress(state.done, len(self.files))
                x, done, skipped = self._chunk(pool, state, step)
                said = {"done": done, "skipped": skipped, "sha256": _sha256(x)}
                with _writing(part):
                    # In this order: what the journal has is in the file. What a power cut makes of that, the sum tells.
                    _write(file, x.reshape(-1).data)
                    _write(log, f"{json.dumps(said)}\n".encode())
                state.add(x, done, skipped, self._train_rows(state.done, done, skipped))
            with _writing(part):
                os.fsync(file.fileno())
        with _writing(path):
            part.replace(path)
            sync_folder(place)
            stamp = _stamp(path)
        mean, std = state.moments.mean_std()
        sha256 = state.content.hexdigest()
        kept = {"listing": self.listing, "shape": state.shape, "skipped": state.skipped, "mean": mean, "std": std}
        _write_manifest(place / f"{self.key}.json", kept | {"sha256": sha256, "file": stamp})
        with contextlib.suppress(OSError):
            journal.unlink()
        progress(len(self.files), len(self.files))
        return self._packed(Mapped(path, 0, (state.rows, *state.shape)), state.skipped, mean, std, sha256, path)

    def _chunk(self, pool: ThreadPoolExecutor, state: _State, step: int) -> tuple[Images, int, list[tuple[int, str]]]:
        files = self.files[state.done : state.done + step]
        found = _each(pool, lambda file: self._decoded(file, state.shape), files)
        skipped = [(i, entry) for i, entry in enumerate(found, state.done) if isinstance(entry, str)]
        x = np.empty((len(files) - len(skipped), *state.shape), np.uint8)
        for row, image in enumerate(entry for entry in found if not isinstance(entry, str)):
            x[row] = image
        return x, state.done + len(files), skipped

    def _train_rows(self, start: int, end: int, skipped: list[tuple[int, str]]) -> int:
        """How many of a chunk's rows are for training."""
        return max(0, min(end, self.train) - start) - sum(i < self.train for i, _ in skipped)

    @cached_property
    def _head(self) -> str:
        return json.dumps({"listing": self.listing, "shape": self.shape}) + "\n"

    def _resumed(self, part: Path, journal: Path) -> _State:
        """As far as the journal goes and the rows are those it tells of."""
        state = _State(self.shape)
        with contextlib.suppress(*NONSENSE), journal.open("rb") as log, part.open("rb") as file:
            if log.readline() == self._head.encode():
                state.journal = len(self._head)
                for line in log:
                    self._take(state, json.loads(line), file.read)
                    state.journal += len(line)
        return state

    def _take(self, state: _State, said: Any, read: Callable[[int], bytes]) -> None:
        done = _index(said["done"], min(state.done + CHUNK_FILES, len(self.files)) + 1)
        skipped = [(_index(i, done), str(reason)) for i, reason in said["skipped"]]
        indices = [i for i, _ in skipped]
        if done <= state.done or indices != sorted({*indices}) or min(indices, default=state.done) < state.done:
            raise ValueError(said)
        rows = done - state.done - len(skipped)
        x = np.frombuffer(read(rows * state.row), np.uint8).reshape(rows, *state.shape)
        if _sha256(x) != said["sha256"]:
            raise ValueError(said)
        state.add(x, done, skipped, self._train_rows(state.done, done, skipped))

    def _require_room(self, part: Path, state: _State) -> None:
        """Refuses at once what would fail after an hour."""
        needed = (len(self.files) - state.done) * state.row
        with _writing(part):
            free = shutil.disk_usage(part.parent).free
        if needed > free:
            raise OutputError(
                f"cannot write {part}: the images take {needed / 1e9:.2f} GB and {free / 1e9:.2f} GB are free; make"
                " room there, or give a smaller size"
            )


def _each(pool: ThreadPoolExecutor, function: Callable[[File], Any], files: list[File]) -> list[Any]:
    """The function of every file, several to a task: a task takes as long to hand out as a small image to decode."""
    several = max(1, min(16, len(files) // (4 * folders.threads())))
    tasks = [files[i : i + several] for i in range(0, len(files), several)]
    return [found for task in pool.map(lambda task: [function(file) for file in task], tasks) for found in task]


def _area(size: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    return math.prod(size), size


def _sha256(x: Images) -> str:
    return hashlib.sha256(x.reshape(-1).data).hexdigest()


def _write(file: Any, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _stamp(path: Path) -> list[int]:
    """By what a file is known that nobody has touched."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _check(kept: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _write_manifest(path: Path, kept: dict[str, Any]) -> None:
    write_json(path, kept | {"check": _check(kept)})


def _index(value: Any, end: int) -> int:
    if type(value) is not int or not 0 <= value < end:
        raise ValueError(value)
    return value


def _numbers(values: Any, count: int) -> tuple[float, ...]:
    numbers = tuple(map(float, values))
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(values)
    return numbers
