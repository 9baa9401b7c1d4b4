"""Stopping a run from outside, so that it can go on later."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tfcsr import processes

# `timeout` and a terminal that closes ask a process and its group: twice, and mean it once.
SAME_WISH_SECONDS = 0.2
# torchrun passes on what the terminal has sent to its processes already.
SAME_WISH_SECONDS_TOGETHER = 2.0


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
        self.asked: int | None = None
        here = processes.here()
        here.wish = here.wished = 0

    @property
    def number(self) -> int | None:
        """The signal to stop by. Processes that train together go by what all of them know: they tell each other with
        every step, and stop at the same.
        """
        here = processes.here()
        return (here.wished or None) if here.several else self.asked

    def request(self, number: int = signal.SIGTERM) -> None:
        self.asked = self.asked or number
        processes.here().wish = self.asked


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM as a wish; a second one is no wish any more."""
    stop = Stop()
    asked = 0.0
    same = SAME_WISH_SECONDS_TOGETHER if processes.here().several else SAME_WISH_SECONDS

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if stop.asked is None:
            asked = time.monotonic()
            stop.request(number)
        elif time.monotonic() - asked > same:
            raise Interrupted(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
