"""Stopping a run from outside, so that it can go on later."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A run stopped on request. `number` is the signal that asked for it."""

    def __init__(
        self,
        number: int,
        message: str = "stopped; what is complete or saved is kept, the same command goes on with the rest",
    ) -> None:
        super().__init__(message)
        self.number = number


class Stop:
    """Somebody's wish that runs should stop: after the step in hand, or once what they have is saved."""

    def __init__(self) -> None:
        self.number: int | None = None

    def request(self, number: int = signal.SIGTERM) -> None:
        self.number = self.number or number


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM as a wish; a second one is no wish any more."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.number is not None:
            raise Interrupted(number)
        stop.request(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
