"""How files are written: all or nothing, and the disk's refusals in one line."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfcsr.errors import OutputError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the disk refuses into an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {path}: {reason}; make room there or choose another --out") from None


def write_json(path: Path, values: Any) -> None:
    """Written beside, brought to disk, then renamed: a reader sees the old file or the new one, whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            with beside.open("w", encoding="utf-8") as file:
                json.dump(values, file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
