"""Runs in processes of their own, to be stopped, starved and killed."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfcsr

SMALL = {
    "benchmark": "split-digits",
    "max_per_class": 8,
    "batch_size": 8,
    "epochs": 15,
    "device": "cpu",
    "threads": 1,
    "checkpoint_every": 1,
}

Started = subprocess.Popen[str]


def flags(**fields: Any) -> list[str]:
    return [text for name, value in fields.items() for text in (f"--{name.replace('_', '-')}", str(value))]


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def epochs(out: Path) -> int:
    """How many epochs a run has told of."""
    file = out / "events.jsonl"
    return file.read_text().count('"epoch_finished"') if file.exists() else 0


def history(out: Path) -> list[dict[str, Any]]:
    """A run's events, but for what the clock says and where it ran."""
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    return [{k: v for k, v in event.items() if k not in ("time", "seconds", "spec")} for event in events]


def essence(result: tfcsr.Result) -> dict[str, Any]:
    """A result, but for what the clock says and where it ran."""
    return {k: v for k, v in result.to_dict().items() if k not in ("seconds", "environment", "spec")}


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Starts the command line in a session of its own, as a terminal would; or Python, with `module=""`."""
    started: list[Started] = []

    def begin(*arguments: str, module: str = "tfcsr", **more: Any) -> Started:
        env = os.environ | {"PYTHONPATH": str(Path(tfcsr.__file__).parents[1])}
        command = [sys.executable, *(["-m", module] if module else []), *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=env, start_new_session=True, **more
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def one_line(process: Started, code: int) -> str:
    """The one line a process says before it ends with this code."""
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.count("\n")) == (code, 1), said
    assert said.startswith("tfcsr: ")
    return said


@pytest.fixture
def slow_saves(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, int]], Callable[[dict[str, Any]], None]]:
    """A clock by which an epoch takes 10 s and a checkpoint half a second. What was saved, as (folder, epoch), and the
    listener that turns the clock.
    """
    now = [0.0]
    saved: list[tuple[str, int]] = []

    def save(self: Any, number: int, state: Any, events: Any) -> None:
        saved.append((self.folder.parent.name, number))
        self.last = number
        now[0] += 0.5

    def listener(event: dict[str, Any]) -> None:
        if event["event"] == "epoch_finished":
            now[0] += 10

    monkeypatch.setattr("tfcsr.experiments.saving.time.monotonic", lambda: now[0])
    monkeypatch.setattr("tfcsr.experiments.run.Checkpoints.save", save)
    return saved, listener
