"""An array in a file as a tensor, read a page at a time when it is touched: it may be larger than the memory."""

import math
import mmap
import os
import sys
from pathlib import Path

import torch

from tfcsr.errors import DataError

# Without it Linux refuses a writable view that is larger than the memory. Python has the name from 3.13 on.
_NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class Mapped:
    """`tensor` is the array. Writing to it changes this process's view, never the file."""

    def __init__(self, path: Path, offset: int, shape: tuple[int, ...], dtype: torch.dtype = torch.uint8) -> None:
        self.path = path
        self._map: mmap.mmap | None = None
        self._offset = offset
        count = math.prod(shape)
        end = offset + count * dtype.itemsize
        try:
            with path.open("rb") as file:
                there = os.fstat(file.fileno()).st_size
                if min((offset, *shape)) < 0 or end > there:
                    raise DataError(
                        f"{path} has {there} bytes, too few for {shape} from byte {offset} on; make it anew"
                    )
                if count == 0:  # nothing to map, which mmap would refuse
                    self.tensor = torch.empty(shape, dtype=dtype)
                    return
                start = offset - offset % mmap.ALLOCATIONGRANULARITY
                self._map = mmap.mmap(
                    file.fileno(),
                    end - start,
                    flags=mmap.MAP_PRIVATE | _NO_RESERVE,
                    prot=mmap.PROT_READ | mmap.PROT_WRITE,
                    offset=start,
                )
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror or error}); make it readable or move it"
            ) from None
        # The tensor keeps the map alive, whatever becomes of this object.
        self.tensor = torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset - start).reshape(shape)

    def gather(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        """Read these rows into `out`, a tensor of theirs in host memory, without a trace in the map: to touch one row
        there may bring in megabytes beside it.
        """
        size = self.tensor[0].nbytes
        place = memoryview(out.numpy().reshape(-1).view("u1").data)
        file = os.open(self.path, os.O_RDONLY)
        try:
            # In the order of the file, which is the order in which a disk is fast.
            order = rows.argsort()
            for row, to in zip(rows[order].tolist(), order.tolist(), strict=True):
                there = os.preadv(file, [place[to * size : (to + 1) * size]], self._offset + row * size)
                if there != size:
                    raise DataError(f"{self.path} ends before row {row}: it was changed while it was read")
        finally:
            os.close(file)

    def release(self) -> None:
        """Give the pages in memory back; they are read again when they are touched. What was written is forgotten."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
