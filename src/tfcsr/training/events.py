"""What the loop tells its listeners. Each event is a flat dict of JSON values with its kind under `event`."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfcsr.errors import OutputError
from tfcsr.files import writing

Event = dict[str, Any]
Listener = Callable[[Event], None]

# Sent for a display's sake: steps are too many to keep, and a history must not tell that a run was resumed.
PASSING = ("step", "run_resumed")


class Events:
    """Hands each event to every listener, in order."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)

    def emit(self, kind: str, **values: Any) -> None:
        event = {"event": kind, "time": time.time(), **values}
        for listener in self.listeners:
            listener(event)


class JsonLines:
    """The listener that keeps a run's history, a line per event, each handed to the system as soon as it is written.

    A resumed run's history is first cut back to the `keep` bytes that its checkpoint knows of: what was written after
    them will happen once more.
    """

    def __init__(self, path: Path, keep: int = 0) -> None:
        self._path = path
        with writing(path):
            self._file = path.open("r+b" if keep else "wb")
            if keep:
                size = self._file.seek(0, os.SEEK_END)
                if size < keep:
                    self._file.close()
                    raise OutputError(
                        f"{path} has {size} bytes, its checkpoint knows of {keep}: move its folder away to run again"
                    )
                self._file.seek(keep)
                self._file.truncate()

    def __call__(self, event: Event) -> None:
        if event["event"] not in PASSING:
            with writing(self._path):
                self._file.write((json.dumps(event) + "\n").encode())
                self._file.flush()

    def synced(self) -> int:
        """How many bytes there are, all of them on disk now."""
        with writing(self._path):
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written has been said already
            self._file.close()
