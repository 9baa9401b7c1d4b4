"""What a learner has been through, as files that are read without torch: what it learned when, what it recalls.

Each entry is a line of a file in `history`, to which a save adds its own: to write them all again would take longer
with every instalment. Who refers to the file, a checkpoint or `history.json`, says how many of its bytes count.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tfcsr.errors import OutputError
from tfcsr.files import add_bytes, read_json, sync_folder, write_bytes, writing

HISTORY = "history.json"
FOLDER = "history"
KINDS = ("instalments", "evaluations", "probes")
LONG_ENOUGH = 256  # bytes, to know a file by its end
NOTED = "noted"  # under which a reference stands


@dataclass(frozen=True)
class Noted:
    """The entries that lie in a learner's folder, and the checkpoint that refers to them."""

    folder: Path
    checkpoint: int = 0
    file: str = ""
    size: int = 0
    entries: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    digest: Any = field(default_factory=hashlib.sha256)
    end: bytes = b""

    def reference(self) -> dict[str, Any]:
        return {"file": self.file, "bytes": self.size, "sha256": self.digest.hexdigest(), "entries": dict(self.entries)}

    def more(self, history: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """The entries of a history that are not there yet."""
        return {name: history[name][self.entries[name] :] for name in KINDS}

    def holds(self, checkpoint: int) -> bool:
        """Whether it is that checkpoint which refers to them still, and they are there."""
        if checkpoint != self.checkpoint or self.size == 0:
            return checkpoint == self.checkpoint
        try:
            with (self.folder / FOLDER / self.file).open("rb") as file:
                file.seek(self.size - len(self.end))
                return file.read(len(self.end)) == self.end
        except OSError:
            return False

    def added(self, history: Mapping[str, list[Any]], checkpoint: int) -> "Noted":
        """With what is new in a history, on disk, for a checkpoint that will refer to it."""
        more = self.more(history)
        data = b"".join(_line(name, entry) for name in KINDS for entry in more[name])
        file, place = self.file or f"{checkpoint}.jsonl", self.folder / FOLDER
        if data and self.size:
            add_bytes(place / file, self.size, data)
        elif data:
            with writing(place):
                place.mkdir(exist_ok=True)
            write_bytes(place / file, data)
            sync_folder(place)
            sync_folder(self.folder)
        digest = self.digest.copy()
        digest.update(data)
        entries = {name: self.entries[name] + len(more[name]) for name in KINDS}
        size = self.size + len(data)
        return Noted(
            self.folder, checkpoint, file if size else "", size, entries, digest, (self.end + data)[-LONG_ENOUGH:]
        )

    def remove_others(self) -> None:
        """Files that nothing refers to any more."""
        place = self.folder / FOLDER
        with writing(place):
            for path in place.iterdir() if place.is_dir() else ():
                if path.name != self.file:
                    path.unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path, reference: Any, checkpoint: int = 0) -> tuple[Self, dict[str, list[Any]]]:
        """What a reference means, and its entries; a ValueError where it means nothing."""
        kinds = {"file": str, "bytes": int, "sha256": str, "entries": dict}
        if not isinstance(reference, dict) or any(
            type(reference.get(name)) is not kind for name, kind in kinds.items()
        ):
            raise ValueError("its history is nowhere")
        file, size = reference["file"], reference["bytes"]
        data, found = b"", {name: list[Any]() for name in KINDS}
        if size:
            if Path(file).name != file:  # a file decides nothing about other folders
                raise ValueError("its history lies elsewhere")
            try:
                if size <= (folder / FOLDER / file).stat().st_size:
                    with (folder / FOLDER / file).open("rb") as opened:
                        data = opened.read(max(0, size))
            except OSError as error:
                raise ValueError(f"{FOLDER}/{file}: {error.strerror}") from None
        digest = hashlib.sha256(data)
        if len(data) != size or digest.hexdigest() != reference["sha256"]:
            raise ValueError(f"{FOLDER}/{file} is damaged")
        for line in data.splitlines():
            ((name, entry),) = json.loads(line).items()
            found[name].append(entry)
        entries = {name: len(found[name]) for name in KINDS}
        if entries != reference["entries"]:
            raise ValueError(f"{FOLDER}/{file} is damaged")
        return cls(folder, checkpoint, file, size, entries, digest, data[-LONG_ENOUGH:]), found


def _line(name: str, entry: Any) -> bytes:
    return (json.dumps({name: entry}, allow_nan=False) + "\n").encode()


def history(folder: Path) -> dict[str, Any]:
    """The history of the learner in a folder; with the learn that was stopped there, if one was."""
    found = read_json(folder / HISTORY)
    if not isinstance(found, dict):
        raise OutputError(f"{folder / HISTORY} is damaged: it does not hold a history")
    if NOTED in found:  # which an earlier version had written out
        try:
            found |= Noted.read(folder, found.pop(NOTED))[1]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise OutputError(f"{folder / HISTORY} cannot be used: {error}") from None
    return found | {"name": folder.resolve().name, "unfinished": unfinished(folder / "learning")}


def unfinished(folder: Path) -> dict[str, Any] | None:
    """The learn that was not finished, as its newest checkpoint in this folder tells."""
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stem.rjust(20), reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            state = json.loads(path.read_bytes())["content"]["state"]
            pending = dict(dict(state["dict"])["pending"]["dict"])
            kinds = {"number": int, "source": str, "epoch": int, "epochs": int}
            if all(type(pending[name]) is kind for name, kind in kinds.items()):
                return {name: pending[name] for name in kinds}
    return None
