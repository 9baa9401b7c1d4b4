"""How files are written and read: all or nothing, one process at a time, and the disk's refusals in one line."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfcsr.errors import BusyError, OutputError

LOCK = ".lock"
PART = ".part"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the disk refuses into an error that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {path}: {reason}; make room there or choose another --out") from None


def require_folder(path: Path) -> None:
    """Refuses what is no folder and cannot become one, before anything is done for it."""
    with writing(path):
        there = next((place for place in (path, *path.parents) if place.exists()), None)
    if there is not None and not there.is_dir():
        raise OutputError(f"{there} is not a folder: choose another --out")


def write_bytes(path: Path, data: bytes) -> None:
    """Written beside, brought to disk, read again, then renamed: a reader sees the old file or the new one, whole.

    The new name itself is on disk only after `sync_folder`.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    with writing(path):
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if beside.read_bytes() != data:
                raise OutputError(f"{path}: the disk gives back something else than was written; choose another --out")
            beside.replace(path)
        finally:
            with contextlib.suppress(OSError):  # what went wrong before is the one to tell
                beside.unlink(missing_ok=True)


def add_bytes(path: Path, known: int, data: bytes) -> None:
    """Written behind the bytes that are known, and brought to disk. What lies there is of somebody who was killed
    before it became known.
    """
    with writing(path), path.open("r+b") as file:
        file.seek(known)
        file.truncate()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        file.seek(known)
        if file.read() != data:
            raise OutputError(f"{path}: the disk gives back something else than was written; choose another --out")


def sync_folder(path: Path) -> None:
    with writing(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, values: Any) -> None:
    write_bytes(path, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode())
    sync_folder(path.parent)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise OutputError(f"{path} is damaged: it is not JSON; move its folder away to run again") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder to ourselves. The kernel gives the lock back when a process ends, however it ends."""
    path = folder / LOCK
    while True:
        with writing(path):
            file = path.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who held it before may have removed the file since we opened it: nobody else would see such a lock.
                if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    break
            except BlockingIOError:
                file.close()
                raise BusyError(
                    f"another process is at work in {folder}: wait for it, or choose another --out"
                ) from None
            file.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()


def at_work(folder: Path) -> bool:
    """Whether a process of this machine holds the folder. Asks without touching the lock: to try it could make a run
    that is just beginning believe that somebody else has it.
    """
    try:
        there = (folder / LOCK).stat()
    except OSError:
        return False
    try:
        held = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:  # not Linux: then the file, which only a killed process leaves behind, has to do
        return True
    # By the file's number alone: some filesystems show another device here than there.
    return any(line.split()[-3].endswith(f":{there.st_ino}") for line in held.splitlines() if "FLOCK" in line)
