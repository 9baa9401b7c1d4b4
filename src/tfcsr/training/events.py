"""What the loop tells its listeners. Each event is a flat dict of JSON values with its kind under `event`."""

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfcsr.files import writing

Event = dict[str, Any]
Listener = Callable[[Event], None]

# Sent for a display's sake after every step; too many to keep.
PASSING = "step"


class Events:
    """Hands each event to every listener, in order."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)

    def emit(self, kind: str, **values: Any) -> None:
        event = {"event": kind, "time": time.time(), **values}
        for listener in self.listeners:
            listener(event)


class JsonLines:
    """The listener that keeps a run's history, a line per event, each on disk as soon as it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            self._file = path.open("w", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        if event["event"] != PASSING:
            with writing(self._path):
                self._file.write(json.dumps(event) + "\n")
                self._file.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written has been said already
            self._file.close()
