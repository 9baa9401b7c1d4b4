"""A process of a comparison: takes specs as JSON lines on stdin, answers with JSON lines on stdout.

A process of its own, and not Python's multiprocessing, so that a script without a `__main__` guard can compare, and a
process that the system kills takes only its own run with it.
"""

import json
import os
import signal
import sys
from typing import Any, TextIO

from tfcsr.errors import TfcsrError
from tfcsr.training.events import Event

SECONDS_BETWEEN_REPORTS = 0.2


class Reporter:
    """The listener that passes a run's progress on, thinned out."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] != "step" or event["time"] >= self._next:
            self._next = event["time"] + SECONDS_BETWEEN_REPORTS
            say(self._out, "event", event)


def say(out: TextIO, kind: str, value: Any) -> None:
    out.write(json.dumps({kind: value}) + "\n")
    out.flush()


def main() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # whatever a library prints must not mix with the answers

    from tfcsr.experiments.run import run
    from tfcsr.spec import RunSpec

    for line in sys.stdin:
        try:
            say(out, "result", run(RunSpec.from_dict(json.loads(line)), [Reporter(out)]).to_dict())
        except TfcsrError as error:
            say(out, "error", str(error))


if __name__ == "__main__":
    main()
