"""The folder of a run on the machine that executes it for another, and what of it goes home. It needs no torch."""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfcsr.experiments.folder import RunFolder
from tfcsr.files import writing

# What goes home, by its kind: (offset, bytes), (number, tensors, manifest), and bytes.
EVENTS, CHECKPOINT, MODEL = "events", "checkpoint", "model"


class Away:
    """The folder of a run there, in a place of its own, and what of it has gone home."""

    def __init__(self, path: Path, files: Mapping[str, bytes]) -> None:
        self.folder = RunFolder(path)
        self.told = False  # before, the events of a resumed run may yet be cut back
        self._sent = 0
        if files:
            with writing(path):
                self.folder.checkpoint_folder.mkdir(parents=True)
                for name, data in files.items():
                    (path / name).write_bytes(data)
        self._last = self._newest()

    def news(self, *, checkpoints: bool = True) -> list[tuple[str, Any]]:
        """What is new since it was asked before, in the order in which it must be written."""
        if not self.told:
            return []
        found: list[tuple[str, Any]] = []
        with contextlib.suppress(OSError):  # the run itself removes an older checkpoint; the next look will do
            newest = self._newest() if checkpoints else self._last
            if newest > self._last:
                names = (f"{newest}.safetensors", f"{newest}.json")
                packed = [(self.folder.checkpoint_folder / name).read_bytes() for name in names]
                found.append((CHECKPOINT, (newest, *packed)))
                self._last = newest
        # Read after the checkpoint, written before it: all that it knows of is there.
        with contextlib.suppress(OSError), self.folder.events_file.open("rb") as file:
            file.seek(self._sent)
            if data := file.read():
                found.insert(0, (EVENTS, (self._sent, data)))
                self._sent += len(data)
        return found

    def last_news(self) -> list[tuple[str, Any]]:
        """The rest, once the run has ended, in whatever way."""
        found = self.news()
        if self.folder.model_file.exists():
            found.append((MODEL, self.folder.model_file.read_bytes()))
        return found

    def _newest(self) -> int:
        """The number of the newest checkpoint; its manifest is written last. 0 where there is none."""
        there = self.folder.checkpoint_folder.glob("*.json")
        return max((int(path.stem) for path in there if path.stem.isdecimal()), default=0)

    def remove(self) -> None:
        shutil.rmtree(self.folder.path, ignore_errors=True)
