"""The examples of a buffer in a file. What is drawn is read; what changes is written; a checkpoint copies none of it.

A slot of the buffer holds the number of a row of the file. An example that arrives goes to a row that nobody holds:
neither the buffer, nor a version of it that is kept, in memory or in a checkpoint. So what a checkpoint knows is never
written over, and a kill at any moment leaves it whole. Each row has a checksum, which is looked at when it is read.
"""

import os
import secrets
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from torch import Tensor

from tfcsr.errors import OutputError
from tfcsr.files import sync_folder, writing

# In the folder of a run or a learner.
FOLDER = "buffer"
# The name of a file of rows ends so; that of a version of a buffer, which lies with its checkpoint, so.
ROWS, VERSION = ".rows", ".version"
# So much is read or written at a time.
BLOCK_BYTES = 32 << 20
# Linux takes no more pieces at once.
MOST_PIECES = 1024


# Those of this process, by where they lie: all who share a file must know of each other.
_open: "weakref.WeakValueDictionary[Path, RowFile]" = weakref.WeakValueDictionary()


class RowFile:
    """Rows of one size. A new one lies in `folder`; without one in a file that is gone when the process ends. What was
    opened from a path that is not its `own` is read there, and copied before anything is written.
    """

    def __init__(self, row: int, folder: Path | None = None, path: Path | None = None, *, own: bool = True) -> None:
        self.row, self.folder, self.path, self.own = row, folder, path, own
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._file: int | None = None
        self._writable = False
        self._named = path is not None  # whether its name is on disk too
        self._close: Any = None
        self._end = 0 if path is None else path.stat().st_size // max(1, row)
        self._free = np.zeros(0, np.int32)

    def __deepcopy__(self, memo: dict[int, Any]) -> "RowFile":
        return self  # whoever shares it holds rows of his own

    @classmethod
    def at(cls, path: Path, row: int, *, own: bool = True) -> "RowFile":
        """The one that lies there."""
        found = _open.get(path.absolute()) if own else None
        if found is None or found.row != row:
            found = cls(row, path.parent, path, own=own)
            if own:
                _open[path.absolute()] = found
        found._end = max(found._end, path.stat().st_size // row)
        found._opened()  # from now on it is ours, even if somebody removes it
        return found

    def write(self, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write these bytes, [N, row]: the numbers of the rows they are in now, and their checksums."""
        if not self.own:
            self._copy_to(self.folder)
        file = self._opened(writable=True)
        rows = self._vacant(len(data))
        with writing(self._where):
            for start, stop in _runs(rows):
                _write_all(file, data[start:stop], int(rows[start]) * self.row)
        return rows, np.array([zlib.crc32(one) for one in data], np.uint32).view(np.int32)

    def read(self, rows: np.ndarray, sums: np.ndarray, out: np.ndarray) -> None:
        """Read these rows into `out`, [N, row]. One that is not what was written is an error."""
        if len(rows) == 0:
            return
        file = self._opened()
        # In the order of the file, in which a disk is fast; neighbours come at once.
        order = np.argsort(rows, kind="stable")
        for start, stop in _runs(rows[order]):
            for first in range(start, stop, MOST_PIECES):
                places = order[first : min(stop, first + MOST_PIECES)]
                try:
                    there = os.preadv(file, [out[place] for place in places], int(rows[places[0]]) * self.row)
                except OSError as error:
                    raise OutputError(f"cannot read {self._where}: {error.strerror}") from None
                if there != len(places) * self.row:
                    raise OutputError(f"{self._where} ends too early: it was cut off after its checkpoint was written")
        for row, expected, found in zip(rows.tolist(), sums.view(np.uint32).tolist(), out, strict=True):
            if zlib.crc32(found) != expected:
                raise OutputError(
                    f"{self._where} is damaged in row {row}, or another process has gone on from it: load it again, or"
                    " start over"
                )

    def bring_to(self, folder: Path) -> str:
        """Have it lie in this folder, on disk; its name there."""
        if self.path is None or not self.own or self.folder != folder or not self.path.exists():
            self._copy_to(folder)
        assert self.path is not None
        if self._writable:  # else there is nothing new
            with writing(self.path):
                os.fsync(self._opened())
            if not self._named:
                sync_folder(folder)
                self._named = True
        return self.path.name

    @property
    def _where(self) -> Path:
        return self.path or Path(tempfile.gettempdir())

    def leave(self) -> None:
        """Leave it to whoever has its folder; before anything is written, go on in a temporary file."""
        if self.path is not None:
            self.own, self.folder = False, None

    def _vacant(self, count: int) -> np.ndarray:
        """Rows that nobody holds."""
        if len(self._free) < count:
            held = np.zeros(self._end, bool)
            for rows in self._held():
                held[rows[rows >= 0]] = True
            free = np.flatnonzero(~held)
            more = max(0, count - len(free))
            self._free = np.concatenate([free, np.arange(self._end, self._end + more)]).astype(np.int32)
            self._end += more
        found, self._free = self._free[:count], self._free[count:]
        return found

    def _held(self) -> Iterator[np.ndarray]:
        for holder in self.holders:
            yield holder.rows.numpy()
        if self.path is not None:
            for name, tensors in kept_versions(self.path.parent.parent):
                if name == self.path.name:
                    yield tensors.get_tensor("rows").numpy()

    def _opened(self, *, writable: bool = False) -> int:
        if self._file is None or (writable and not self._writable):
            self._use(self.path or self._new(self.folder), writable)
        assert self._file is not None
        return self._file

    def _new(self, folder: Path | None) -> Path:
        place = Path(tempfile.gettempdir()) if folder is None else folder
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
        return place / f"{secrets.token_hex(8)}{ROWS}"

    def _use(self, path: Path, writable: bool) -> None:
        with writing(path):
            file = os.open(path, (os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY) | os.O_CLOEXEC, 0o666)
        if self._close is not None:
            self._close()
        self._file, self._writable, self._close = file, writable, weakref.finalize(self, os.close, file)
        if self.folder is None and self.own:
            path.unlink(missing_ok=True)  # the kernel keeps it for us, and nobody has to clean up
        else:
            self.path = path
        if self.path is not None and self.own:
            _open[self.path.absolute()] = self

    def _copy_to(self, folder: Path | None) -> None:
        """Go on in another place; where it was, it stays as it is. The rows keep their numbers."""
        old, size = self._opened() if self._end else None, self._end * self.row
        new = RowFile(self.row, folder)
        if old is not None:
            target = new._opened(writable=True)
            with writing(new._where):
                done = 0
                while done < size and (data := os.pread(old, min(BLOCK_BYTES, size - done), done)):
                    _write_all(target, data, done)
                    done += len(data)
        if self._close is not None:
            self._close()
        if self.path is not None and _open.get(self.path.absolute()) is self:
            del _open[self.path.absolute()]
        self.folder, self.path, self.own, self._named = new.folder, new.path, True, False
        self._file, self._writable, self._close = None, False, None
        if new._file is not None:
            new._close.detach()
            self._file, self._writable = new._file, True
            self._close = weakref.finalize(self, os.close, new._file)
            if self.path is not None:
                _open[self.path.absolute()] = self
        elif folder is not None:
            self._opened(writable=True)


class OnDisk:
    """The examples of a buffer, slot by slot, as rows of a file; -1 stands for none, which is all zeros."""

    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: torch.dtype, folder: Path | None = None) -> None:
        self.shape, self.dtype = shape, dtype
        self.file = RowFile(_bytes_of(shape, dtype), folder)
        self.rows = torch.full((capacity,), -1, dtype=torch.int32)
        self.sums = torch.zeros(capacity, dtype=torch.int32)
        self.file.holders.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnDisk":
        other = OnDisk(len(self.rows), self.shape, self.dtype, self.file.folder)
        other.file, other.rows, other.sums = self.file, self.rows.clone(), self.sums.clone()
        self.file.holders.add(other)
        return other

    def read(self, slots: Tensor) -> Tensor:
        """The examples in these slots."""
        slots = slots.cpu()
        out = torch.zeros((len(slots), *self.shape), dtype=self.dtype)
        rows, sums = self.rows[slots].numpy(), self.sums[slots].numpy()
        there = rows >= 0
        if there.all():
            self.file.read(rows, sums, _as_bytes(out))
        elif there.any():
            found = torch.empty((int(there.sum()), *self.shape), dtype=self.dtype)
            self.file.read(rows[there], sums[there], _as_bytes(found))
            out[torch.from_numpy(there)] = found
        return out

    def write(self, slots: Tensor, values: Tensor) -> None:
        """Hold these examples in these slots from now on."""
        slots = slots.cpu()
        rows, sums = self.file.write(_as_bytes(values.detach().to("cpu", self.dtype).contiguous()))
        self.rows[slots], self.sums[slots] = torch.from_numpy(rows), torch.from_numpy(sums)

    def move(self, target: Tensor, source: Tensor) -> None:
        """Slots change places: nothing is read or written for it."""
        target, source = target.cpu(), source.cpu()
        self.rows[target], self.sums[target] = self.rows[source], self.sums[source]

    def clear(self, start: int) -> None:
        """Hold nothing from this slot on."""
        self.rows[start:], self.sums[start:] = -1, 0

    def version(self, fields: dict[str, Tensor]) -> "Version":
        tensors = {"rows": self.rows, "sums": self.sums} | fields
        copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
        return Version(self.file, self.shape, self.dtype, copies)

    def go_back(self, version: "Version") -> None:
        """Hold what a version holds."""
        folder = self.file.folder
        self.file.holders.discard(self)
        self.file = version.file
        if not self.file.own:
            self.file.folder = folder
        self.rows.copy_(version.tensors["rows"])
        self.sums.copy_(version.tensors["sums"])
        self.file.holders.add(self)


@dataclass(frozen=True, eq=False)
class Version:
    """A buffer on disk as it is at some moment: which rows its examples lie in, and all else it holds of them. It stays
    what it is, whatever becomes of the buffer, for as long as anybody keeps it.
    """

    file: RowFile
    shape: tuple[int, ...]
    dtype: torch.dtype
    tensors: dict[str, Tensor]

    def __post_init__(self) -> None:
        rows, sums = self.tensors["rows"], self.tensors["sums"]
        if rows.dtype != torch.int32 or sums.dtype != torch.int32 or rows.shape != sums.shape or rows.ndim != 1:
            raise ValueError("rows of examples that are none")
        if len(rows) and not -1 <= int(rows.min()) <= int(rows.max()) < self.file._end:
            raise ValueError("its examples are not all there")
        self.file.holders.add(self)

    @property
    def rows(self) -> Tensor:
        return self.tensors["rows"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Version":
        return self

    def about(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "dtype": str(self.dtype).removeprefix("torch.")}

    @classmethod
    def read(cls, about: Any, path: Path, tensors: dict[str, Tensor], *, own: bool = True) -> "Version":
        """What `about` says of it, and its file; ValueError or OSError where it cannot be that."""
        shape, dtype = tuple(int(size) for size in about["shape"]), getattr(torch, str(about["dtype"]), None)
        if not isinstance(dtype, torch.dtype) or any(size < 1 for size in shape):
            raise ValueError("examples of no shape or type")
        return cls(RowFile.at(path, _bytes_of(shape, dtype), own=own), shape, dtype, tensors)


def kept_versions(folder: Path) -> Iterator[tuple[str, Any]]:
    """The versions that lie in the checkpoints of a run's or a learner's folder: the file of rows of each, and its
    tensors, opened. One that cannot be read holds nothing.
    """
    for path in folder.glob(f"*/*{VERSION}"):
        try:
            with safetensors.safe_open(path, "pt") as tensors:
                yield str((tensors.metadata() or {}).get("rows", "")), tensors
        except (FileNotFoundError, safetensors.SafetensorError):
            continue
        except OSError as error:  # it may hold something after all
            raise OutputError(f"cannot read {path}: {error.strerror}") from None


def remove_unused(folder: Path) -> None:
    """Remove the files of rows that no checkpoint of a run's or a learner's folder speaks of any more."""
    there = list((folder / FOLDER).glob(f"*{ROWS}"))
    if len(there) == 0:
        return
    used = {name for name, _ in kept_versions(folder)}
    for path in there:
        if path.name not in used:
            with writing(path):
                path.unlink(missing_ok=True)


def _bytes_of(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _as_bytes(x: Tensor) -> np.ndarray:
    """The same memory, a row for each example."""
    found: np.ndarray = x.flatten().view(torch.uint8).numpy()
    return found.reshape(len(x), -1) if len(x) else found.reshape(0, 0)


def _runs(rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """From where to where numbers follow each other."""
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    starts = [0, *ends.tolist()] if len(rows) else []
    return zip(starts, [*ends.tolist(), len(rows)], strict=False)


def _write_all(file: int, data: Any, offset: int) -> None:
    left = memoryview(data).cast("B")
    while left:
        done = os.pwrite(file, left, offset)
        left, offset = left[done:], offset + done
