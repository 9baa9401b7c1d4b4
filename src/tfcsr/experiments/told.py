"""What the events of a run have told so far, read as the file grows. A line that is no event is counted."""

import json
import math
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tfcsr.errors import printable

MOST_TASKS = 100_000  # more is no run's, and would only fill the memory


@dataclass(frozen=True)
class Probe:
    task: int
    epoch: int
    recall: float
    passed: bool
    next_epoch: int | None
    per_class: dict[int, float]


@dataclass
class Told:
    """What a run's events have told so far."""

    classes: list[list[int]] = field(default_factory=list)  # of each task
    class_names: list[str] = field(default_factory=list)  # by label; empty where nothing says them
    accuracies: list[float | None] = field(default_factory=list)  # over all classes seen, after each task; None:
    matrix: list[list[float] | None] = field(default_factory=list)  # not evaluated
    epochs_per_task: list[int] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    task: int = 0  # the one in hand, its last epoch, and the most it may have
    epoch: int = 0
    epochs: int = 0
    collapsed: int | None = None
    failed: str = ""
    unread: int = 0  # lines that are no events
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=20))  # seconds an epoch took
    breaks: deque[float] = field(default_factory=lambda: deque(maxlen=20))  # and from one task's last to the next task
    _last: float = 0.0

    def add(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            handler = self._HANDLERS.get(event["event"])
            if handler is not None:
                handler(self, event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unread += 1

    def _started(self, event: dict[str, Any]) -> None:
        self.classes = [[_whole(label, 0) for label in classes] for classes in event["tasks"]][:MOST_TASKS]
        names = event.get("class_names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):  # else numbers will do
            self.class_names = names[:MOST_TASKS]

    def _task_started(self, event: dict[str, Any]) -> None:
        task, now = _whole(event["task"]), _number(event["time"])
        if 0 < self._last <= now:
            self.breaks.append(now - self._last)
        self.task, self.epoch, self._last = task, 0, now

    def _epoch_finished(self, event: dict[str, Any]) -> None:
        now = _number(event["time"])
        self.task, self.epoch, self.epochs = (_whole(event[name]) for name in ("task", "epoch", "epochs"))
        if 0 < self._last <= now:
            self.paces.append(now - self._last)
        self._last = now

    def _probe(self, event: dict[str, Any]) -> None:
        due = event["next_epoch"]
        per_class = {_whole(int(label), 0): _percent(value) for label, value in event["per_class"].items()}
        task, epoch, recall = _whole(event["task"]), _whole(event["epoch"]), _percent(event["recall"])
        due = None if due is None else _whole(due)
        self.probes.append(Probe(task, epoch, recall, event["passed"] is True, due, per_class))

    def _task_finished(self, event: dict[str, Any]) -> None:
        row = accuracy = None
        if event["row"] is not None:
            row, accuracy = [_percent(v) for v in event["row"]], _percent(event["accuracy"])
        epochs = _whole(event["epochs"])
        if _whole(event["task"]) != len(self.matrix) + 1 or (row is not None and len(row) != len(self.classes)):
            raise ValueError("not the task that was due")
        self.matrix.append(row)
        self.accuracies.append(accuracy)
        self.epochs_per_task.append(epochs)

    def _collapsed(self, event: dict[str, Any]) -> None:
        self.collapsed = _whole(event["task"])

    def _failed(self, event: dict[str, Any]) -> None:
        task, epoch, step = (_whole(event[name]) for name in ("task", "epoch", "step"))
        loss = printable(str(event["loss"]))[:20]
        self.failed = f"the loss became {loss} at step {step} (task {task}, epoch {epoch})"

    _HANDLERS = {  # noqa: RUF012 - a constant
        "run_started": _started,
        "task_started": _task_started,
        "epoch_finished": _epoch_finished,
        "probe": _probe,
        "task_finished": _task_finished,
        "collapsed": _collapsed,
        "failed": _failed,
    }

    def share(self, tasks: int) -> float:
        """How much of the run is done, from 0 to 1."""
        done = len(self.matrix)
        in_task = self.epoch / self.epochs if self.task > done and self.epochs else 0.0
        return min(1.0, (done + min(1.0, in_task)) / max(tasks, 1))

    def seconds_left(self, tasks: int) -> float | None:
        """At the pace of its last epochs, if every task takes all its epochs; unknown before the second of them."""
        left = (tasks - self.task) * self.epochs + self.epochs - self.epoch
        return self._seconds(max(0, left), tasks - len(self.matrix))

    def seconds_in_all(self, tasks: int) -> float | None:
        """How long such a run takes from its beginning, judged in the same way."""
        return self._seconds(tasks * self.epochs, tasks)

    def _seconds(self, epochs: int, tasks: int) -> float | None:
        # Medians: a run that was stopped for an hour has one epoch that took an hour.
        if len(self.paces) < 2:
            return None
        return epochs * median(self.paces) + max(0, tasks) * (median(self.breaks) if self.breaks else 0.0)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a number")
    return float(value)


def _percent(value: Any) -> float:
    return min(100.0, max(0.0, _number(value)))


def _whole(value: Any, low: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 1 << 40:
        raise ValueError("not a count")
    return value


class Tail:
    """A file of events that grows; or is cut back, when its run is resumed from a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told = Told()
        self.offset = 0
        self.mark = b""  # the last bytes read: if they are others now, the file was cut and written anew

    def look(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset - len(self.mark))
                if file.read(len(self.mark)) != self.mark:
                    self.told, self.offset = Told(), 0
                    file.seek(0)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]  # half a line is still being written
        for line in whole.splitlines():
            self.told.add(line)
        self.offset += len(whole)
        self.mark = whole[-64:] or self.mark if self.offset else b""
