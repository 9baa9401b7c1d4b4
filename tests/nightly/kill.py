"""Kills runs at random moments until they finish, and compares each with one that was let alone:

    python -m tests.nightly.kill --kills 1000

Each attempt is a fork that SIGKILLs itself at a point drawn beforehand (inside a step, a write, a rename, ...), or is
killed by the parent after a random delay. The parent never computes, so that torch can be forked.
"""

import argparse
import collections
import hashlib
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import make_spec
from tfcsr.experiments.result import Result
from tfcsr.experiments.run import run
from tfcsr.experiments.training import Training
from tfcsr.methods import METHODS
from tfcsr.spec import RunSpec

# Both layouts of memory, batch normalisation, augmentation, frozen views, probes that pass and probes that fail.
SETTINGS: list[dict[str, Any]] = [
    {"benchmark": "split-digits", "max_per_class": 20, "batch_size": 16, "epochs": 3, "checkpoint_every": 1},
    {
        "benchmark": "tiny",
        "augment": "crop-flip",
        "replay_view": "frozen",
        "mastery_threshold": 60,
    },  # saved as time allows
    {"benchmark": "tiny", "augment": "crop-flip", "tasks": 6, "epochs": 5, "checkpoint_every": 2},
]
POINTS = ("step", "event", "begin", "write", "fsync", "rename", "renamed", "unlink", "clear", "task", "end_task")


class Points:
    """Counts how often each point is passed, and ends the process at the one that was drawn."""

    def __init__(self, fatal: tuple[str, int] | None) -> None:
        self.fatal = fatal
        self.passed: collections.Counter[str] = collections.Counter()

    def __call__(self, point: str) -> None:
        self.passed[point] += 1
        if self.fatal == (point, self.passed[point]):
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        self._around(os, "fsync", "fsync")
        self._around(Path, "replace", "rename", "renamed")
        self._around(Path, "unlink", "unlink")
        self._around(Path, "mkdir", "begin")
        self._around(Training, "_end_task", "task", "end_task")
        open_file, remove = Path.open, shutil.rmtree

        def open_slowly(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            file = open_file(path, mode, *rest, **more)
            if "b" in mode and mode != "rb":
                file = Halting(file, self)
            return file

        def remove_slowly(path: Path, **more: Any) -> None:
            for file in sorted(path.glob("*")):
                self("clear")
                os.unlink(file)  # noqa: PTH108
            remove(path, **more)

        Path.open = open_slowly  # type: ignore[method-assign, assignment]
        shutil.rmtree = remove_slowly  # type: ignore[assignment]

    def _around(self, owner: Any, name: str, before: str, after: str = "") -> None:
        function = getattr(owner, name)

        def wrapped(*arguments: Any, **more: Any) -> Any:
            self(before)
            value = function(*arguments, **more)
            if after:
                self(after)
            return value

        setattr(owner, name, wrapped)


class Halting:
    """A file that can end the process when half of what is to be written is written."""

    def __init__(self, file: Any, points: Points) -> None:
        self._file = file
        self._points = points

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._points("write")
        return half + int(self._file.write(data[half:]))

    def __enter__(self) -> "Halting":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def attempt(spec: RunSpec, fatal: tuple[str, int] | None) -> None:
    """In a fork: the run, its buffer and what its points were passed."""
    points = Points(fatal)
    beside = Path(str(spec.out) + ".more")
    result_of = Result.of

    def keep_buffer(training: Training, *more: Any) -> Result:
        buffer = training.learner.buffer
        fields = b"".join(field.numpy().tobytes() for field in buffer.fields.values())
        digest = hashlib.sha256(fields + b"%d" % buffer.seen)
        beside.write_text(json.dumps({"buffer": digest.hexdigest(), "passed": points.passed}))
        return result_of(training, *more)

    Result.of = keep_buffer  # type: ignore[method-assign, assignment]
    points.install()
    run(spec, [lambda event: points("step" if event["event"] == "step" else "event")])


def in_fork(action: Callable[[], None], kill_after: float | None = None) -> int:
    """How the fork ended: 0, or minus the signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(spec: RunSpec) -> dict[str, Any]:
    """All that must be the same; the points and the seconds come back apart."""
    folder = Path(str(spec.out))
    result = json.loads((folder / "result.json").read_text())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    for event in events:
        event.pop("time")
        event.pop("seconds", None)
        event.pop("spec", None)
    more = json.loads(Path(str(spec.out) + ".more").read_text())
    for name in ("seconds", "environment", "spec"):
        result.pop(name)
    return {"result": result, "events": events, "buffer": more["buffer"]}


def kill_and_compare(kills: int, seed: int, folder: Path) -> tuple[collections.Counter[str], int]:
    """Kills by point, and how many runs were finished and compared."""
    rng = random.Random(seed)
    references: dict[str, tuple[dict[str, Any], dict[str, int], float]] = {}
    counted: collections.Counter[str] = collections.Counter()
    finished = 0
    grid = [fields | {"method": method} for fields in SETTINGS for method in METHODS.names()]
    rng.shuffle(grid)
    while counted.total() < kills:
        fields = grid[finished % len(grid)]
        spec = make_spec(**fields, max_epochs=4, lr=3e-4, out=str(folder / f"{finished}"))
        if spec.key() not in references:
            alone = spec.replace(out=str(folder / spec.key()))
            started = time.monotonic()
            assert in_fork(lambda spec=alone: attempt(spec, None)) == 0  # type: ignore[misc]
            passed = json.loads(Path(f"{alone.out}.more").read_text())["passed"]
            references[spec.key()] = (outcome(alone), passed, time.monotonic() - started)
        reference, passed, seconds = references[spec.key()]
        while counted.total() < kills or not (Path(str(spec.out)) / "result.json").exists():
            if rng.random() < 0.2:
                point, fatal, delay = "delay", None, rng.uniform(0, seconds)
            else:
                point, delay = rng.choice(POINTS), None
                fatal = (point, rng.randint(1, math.ceil(passed.get(point, 1) / 4)))
            code = in_fork(lambda spec=spec, fatal=fatal: attempt(spec, fatal), delay)  # type: ignore[misc]
            if code == 0:
                break
            assert code == -signal.SIGKILL, f"{spec.name()}, killed at {fatal}, ended with {code}"
            counted[point] += 1
        if outcome(spec) != reference:
            raise SystemExit(f"{spec.name()} in {spec.out} differs from {folder / spec.key()}")
        finished += 1
        shutil.rmtree(str(spec.out))
    return counted, finished


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counted, finished = kill_and_compare(options.kills, options.seed, Path(folder))
    by_point = ", ".join(f"{point} {count}" for point, count in sorted(counted.items()))
    print(f"{counted.total()} kills ({by_point}): {finished} runs finished, all to the same bits and events")
    print(f"{len(METHODS.names())} methods, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
