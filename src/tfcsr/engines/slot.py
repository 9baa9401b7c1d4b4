"""A share of a Ray node: one worker process, and the folders of the runs it has in hand. The other side is `ray.py`.

Nothing goes between the two but numbers, text, bytes, and lists and dicts of them.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tfcsr
from tfcsr.engines.away import CHECKPOINT, Away
from tfcsr.engines.pool import Worker
from tfcsr.errors import TfcsrError
from tfcsr.files import at_work, locked

PREFIX = "tfcsr-slot-"
# A folder is made a moment before it is locked.
SECONDS_TO_LOCK = 60.0

# A run's number (None: it is about the process), the kind, and what comes with it.
Message = tuple[int | None, str, Any]


def versions() -> dict[str, str]:
    """What decides the bits of a run, and must be the same on all machines. A build for GPUs is no other version."""
    return {
        "tfcsr": tfcsr.__version__,
        "torch": importlib.metadata.version("torch").partition("+")[0],
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


class Slot:
    """Methods are called from several threads: `updates` waits in one while a run is given in another."""

    def __init__(self) -> None:
        remove_dead()
        self.place = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._held = contextlib.ExitStack()
        self._held.enter_context(locked(self.place))
        self._changed = threading.Condition()
        self._news: list[Message] = []
        self._urgent = False
        self._runs: dict[int, tuple[Away, str]] = {}  # each with the folder it has at home
        self._worker: Worker | None = None
        self._shipped_at = 0.0

    def hello(self) -> dict[str, str]:
        return versions() | {"host": platform.node()}

    def start(self, plugins: Sequence[tuple[str, str | None]], threads: int, at_once: int) -> None:
        """Start a process, which will ask for runs. `plugins` are modules, or files with their text."""
        self._worker = Worker(threads, [self._here(number, *p) for number, p in enumerate(plugins)], at_once)
        threading.Thread(target=self._listen, args=(self._worker,), daemon=True).start()

    def _here(self, number: int, source: str, text: str | None) -> tuple[str, str]:
        """A plugin where it lies, beside what it may import, if that is the same one; else a copy."""
        path = Path(source)
        with contextlib.suppress(OSError, ValueError):
            if text is None or path.read_text(encoding="utf-8") == text:
                return source, source
        copy = self.place / "plugins" / str(number) / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(str(text), encoding="utf-8")
        return str(copy), source

    def give(self, run: int | None, spec: dict[str, Any], files: dict[str, bytes], data: str) -> tuple[int, str] | None:
        """A run for the process, with what it goes on from and the fingerprint of its data; None: there is no more. If
        it cannot be given, why.
        """
        assert self._worker is not None
        if run is None:
            self._worker.tell(None)
            return None
        at = None
        if spec["out"] is not None:
            at = self.place / str(run)
            try:
                away = Away(at, files)
            except TfcsrError as error:
                return run, str(error)
            with self._changed:
                self._runs[run] = away, spec["out"]
        self._worker.tell({"run": run, "spec": spec, "at": at and str(at), "data": data})
        return None

    def lay_out(self, fingerprint: str, about: dict[str, Any], parts: Sequence[tuple[str, Any]]) -> str:
        """Bring data here that the cluster's object store has. Why it cannot be brought, if it cannot."""
        from tfcsr.engines import parcel

        ray: Any = importlib.import_module("ray")
        try:
            parcel.lay_out(fingerprint, about, ((name, functools.partial(ray.get, ref)) for name, ref in parts))
        except TfcsrError as error:
            return str(error)
        return ""

    def updates(self, pause: float, between_checkpoints: float) -> list[Message]:
        """What is new after `pause` seconds; sooner where it cannot wait."""
        with self._changed:
            self._changed.wait_for(lambda: self._urgent, pause)
            due = time.monotonic() >= self._shipped_at + between_checkpoints
            for run, (away, _) in self._runs.items():
                self._news += [(run, *news) for news in away.news(checkpoints=due)]
            if due and any(kind == CHECKPOINT for _, kind, _ in self._news):
                self._shipped_at = time.monotonic()
            found, self._news, self._urgent = self._news, [], False
        return found

    def _listen(self, worker: Worker) -> None:
        refusal = ""
        try:
            code = worker.listen(self._heard)
            with self._changed:
                for run in list(self._runs):
                    self._bring_home(run)
        except OSError as error:  # what there is of a run cannot be read
            worker.process.kill()
            code, refusal = worker.process.wait(), f"{error.filename}: {error.strerror}"
        with self._changed:
            if refusal:
                self._say(None, "refused", refusal)
            self._say(None, "ended", code)

    def _heard(self, kind: str, value: Any, run: int | None) -> None:
        with self._changed:
            away, home = self._runs.get(run, (None, "")) if run is not None else (None, "")
            if kind == "event" and away is not None and value["event"] in ("run_started", "run_resumed"):
                away.told = True
            elif kind != "event" and away is not None and run is not None:
                self._bring_home(run)
                if isinstance(value, str):  # an error may name a file; there it is another one
                    value = value.replace(str(away.folder.path), home)
            self._say(run, kind, value)

    def _bring_home(self, run: int) -> None:
        away, _ = self._runs.pop(run)
        self._news += [(run, *news) for news in away.last_news()]
        away.remove()

    def _say(self, run: int | None, kind: str, value: Any) -> None:
        last = self._news[-1] if self._news else (None, "", None)
        steps = [last[2], value] if last[:2] == (run, kind) == (run, "event") else []
        if steps and all(event["event"] == "step" for event in steps):
            self._news.pop()  # of several steps in a row the last one tells it all
        self._news.append((run, kind, value))
        if kind != "event":
            self._urgent = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Ask the runs to stop once what they have is saved."""
        if self._worker is not None:
            self._worker.process.terminate()

    def close(self) -> None:
        """End at once, and leave nothing behind."""
        if self._worker is not None:
            self._worker.process.kill()
            self._worker.process.wait()
        self._held.close()
        shutil.rmtree(self.place, ignore_errors=True)


def remove_dead() -> None:
    """Remove what slots have left that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            there = path.stat()
            old = time.time() - there.st_mtime > SECONDS_TO_LOCK
            if old and there.st_uid == os.getuid() and not at_work(path):
                shutil.rmtree(path)
