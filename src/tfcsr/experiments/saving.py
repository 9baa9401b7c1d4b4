"""When training is saved and how it is stopped: the same for a run and for a learner."""

import time
from collections.abc import Callable
from typing import Any

from tfcsr import processes
from tfcsr.errors import counted
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.spec import RunSpec
from tfcsr.training.checkpoint import Checkpoints
from tfcsr.training.events import Event
from tfcsr.training.loop import Loop

# Of the time of a run, for checkpoints.
LARGEST_SHARE = 0.02
# Trainings that go on in this process: while one saves, those beside it wait.
_under_way: set[int] = set()


class Saving:
    """Saves a training between its epochs, as often as its spec says, and stops it when somebody wishes so: at once
    where the last whole epoch is on disk, else once it is.
    """

    def __init__(
        self,
        loop: Loop,
        checkpoints: Checkpoints,
        state: Callable[[], dict[str, Any]],
        synced: Callable[[], int],
        stop: Stop,
        command: str,
    ) -> None:
        self.loop, self.checkpoints = loop, checkpoints
        self.state, self.synced, self.stop, self.command = state, synced, stop, command
        self.saved_at, self.cost = time.monotonic(), 0.0

    def __enter__(self) -> "Saving":
        self.loop.events.listeners.append(self.after_step)
        _under_way.add(id(self.loop))
        return self

    def __exit__(self, *_: object) -> None:
        # It holds the training, which holds it: a thousand runs would wait for the garbage collector, weights and all.
        self.loop.events.listeners.remove(self.after_step)
        _under_way.discard(id(self.loop))

    def after_step(self, event: Event) -> None:
        # Only where the last whole epoch is on disk; else this one is finished and saved first.
        if event["event"] == "step" and (self.checkpoints.last or 0) == self.loop.epochs_trained - 1:
            obey(self.stop, self._how_to_go_on())

    def between_epochs(self) -> None:
        number, now = self.loop.epochs_trained, time.monotonic()
        due = checkpoint_due(self.loop.spec, number, now - self.saved_at, self.cost, len(_under_way))
        # By process 0's clock, where there are several.
        if processes.here().told(due) or self.stop.number is not None:
            self.checkpoints.save(number, self.state(), self.synced())
            self.saved_at, self.cost = time.monotonic(), time.monotonic() - now
        obey(self.stop, self._how_to_go_on())

    def _how_to_go_on(self) -> str:
        last = self.checkpoints.last
        where = f"after {counted(last, 'epoch')}" if last else "before its first checkpoint"
        return f"stopped {where}; {self.command} goes on"


def checkpoint_due(spec: RunSpec, epochs: int, waited: float, cost: float, beside: int) -> bool:
    """Whether to save after so many epochs, so many seconds after the last checkpoint, which took `cost` seconds from
    each of the runs that go on beside each other.
    """
    if spec.checkpoint_seconds == 0 and spec.checkpoint_every > 0:
        return bool(epochs % spec.checkpoint_every == 0)
    return bool(waited >= (spec.checkpoint_seconds or cost * beside / LARGEST_SHARE))


def obey(stop: Stop, message: str) -> None:
    if stop.number is not None:
        raise Interrupted(stop.number, message)
