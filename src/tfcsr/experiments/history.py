"""What a learner has been through, as a file that is read without torch: what it learned when, what it recalls."""

import contextlib
import json
from pathlib import Path
from typing import Any

from tfcsr.errors import OutputError
from tfcsr.files import read_json

HISTORY = "history.json"


def history(folder: Path) -> dict[str, Any]:
    """The history of the learner in a folder; with the learn that was stopped there, if one was."""
    found = read_json(folder / HISTORY)
    if not isinstance(found, dict):
        raise OutputError(f"{folder / HISTORY} is damaged: it does not hold a history")
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
