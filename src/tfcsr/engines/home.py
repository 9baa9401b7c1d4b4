"""The folder of a run that is executed on another machine: the only truth. The other side is `away.py`.

The other machine gets what a resume needs of it. Events, checkpoints and the network come back as they are made, and
are written in an order in which a kill at any moment harms nothing. What comes never decides a file's name.
"""

import contextlib
import os
from typing import Any

from tfcsr.engines.away import CHECKPOINT, EVENTS, MODEL
from tfcsr.errors import OutputError
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.origin import Origin
from tfcsr.experiments.result import Result
from tfcsr.files import sync_folder, write_bytes, write_json, writing
from tfcsr.spec import RunSpec
from tfcsr.training.checkpoint import Checkpoints


class Home:
    """The folder of a run here, if it has one. It is claimed from the first `claim` to `close`."""

    def __init__(self, spec: RunSpec, origin: Origin) -> None:
        self.spec, self.origin = spec, origin
        self.folder = RunFolder(spec.out) if spec.out is not None else None
        self.begun = False
        self._claim = contextlib.ExitStack()
        self._claimed = False
        self._checkpoints: Checkpoints | None = None

    def claim(self) -> Result | None:
        """The result, where the run is complete already; a BusyError where somebody else has the folder."""
        if self.folder is None or self._claimed:
            return None
        if (complete := self.folder.completed(self.spec, self.origin)) is not None:
            return complete
        self._claim.enter_context(self.folder.claimed())
        self._claimed = True
        if (complete := self.folder.completed(self.spec, self.origin)) is not None:
            self.close()
            return complete
        self._checkpoints = Checkpoints(self.folder.checkpoint_folder, self.spec.key())
        self._checkpoints.last = self._checkpoints.newest() or None
        return None

    def close(self) -> None:
        self._claim.close()
        self._claimed = False

    def files(self) -> dict[str, bytes]:
        """What has to be there for the run to go on from its last checkpoint; nothing where it has none."""
        if self.folder is None or self._checkpoints is None or self._checkpoints.last is None:
            return {}
        try:
            found = [self.folder.spec_file, self.folder.events_file, *self.folder.checkpoint_folder.glob("[!.]*")]
            return {path.relative_to(self.folder.path).as_posix(): path.read_bytes() for path in found}
        except OSError as error:
            raise OutputError(f"cannot read {error.filename}: {error.strerror}") from None

    def take(self, kind: str, value: Any) -> None:
        """What comes from the other machine: its events, a checkpoint, or the network."""
        if self.folder is None:
            return
        if not self.begun:
            self.folder.create(self.spec, self.origin)
            self.begun = True
        if kind == EVENTS:
            offset, data = value
            self._write_events(int(offset), bytes(data))
        elif kind == CHECKPOINT and self._checkpoints is not None:
            number, tensors, manifest = value
            # It says how many bytes of the events there are, and those must be on disk before it.
            with writing(self.folder.events_file), self.folder.events_file.open("rb") as file:
                os.fsync(file.fileno())
            self._checkpoints.write(int(number), bytes(tensors), bytes(manifest))
        elif kind == MODEL:
            write_bytes(self.folder.model_file, bytes(value))
            sync_folder(self.folder.path)

    def _write_events(self, offset: int, data: bytes) -> None:
        assert self.folder is not None
        path = self.folder.events_file
        with writing(path):
            if offset == 0 and path.exists():
                # What the last checkpoint knows of is there already, and is never taken away.
                offset = _alike(path.read_bytes(), data)
                data = data[offset:]
            with path.open("r+b" if path.exists() else "wb") as file:
                if file.seek(0, os.SEEK_END) < offset:
                    raise OutputError(f"{path} lacks what came before: move its folder away to run again")
                file.seek(offset)
                file.truncate()
                file.write(data)

    def finish(self, values: Any) -> Result:
        """Keep the result: the run is complete then."""
        result = Result.from_dict(values, f"what came back of {self.spec.name()}")
        if result.spec != self.spec.to_dict() or result.origin != self.origin:
            raise OutputError(
                f"{self.spec.name()} came back as another run: the other machine has other code; install the same"
                " tfcsr and plugins there"
            )
        if self.folder is not None and self._checkpoints is not None:
            write_json(self.folder.result_file, result.to_dict())
            self._checkpoints.clear()
        return result


def _alike(one: bytes, other: bytes) -> int:
    """How many of their first bytes are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
