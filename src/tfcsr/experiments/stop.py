"""Stopping a run from outside, so that it can go on later."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# `timeout` and a terminal that closes ask a process and its group: twice, and mean it once.
SAME_WISH_SECONDS = 0.2


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
    asked = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if stop.number is None:
            asked = time.monotonic()
            stop.request(number)
        elif time.monotonic() - asked > SAME_WISH_SECONDS:
            raise Interrupted(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
