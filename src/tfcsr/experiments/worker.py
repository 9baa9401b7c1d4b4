"""A process of a comparison: takes specs as JSON lines on stdin, answers with JSON lines on stdout.

A process of its own, and not Python's multiprocessing, so that a script without a `__main__` guard can compare, and a
process that the system kills takes only its own run with it.
"""

import json
import os
import signal
import sys
import time
from typing import Any, TextIO

from tfcsr.errors import BusyError, TfcsrError
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.training.events import Event

SECONDS_BETWEEN_REPORTS = 0.2


class Reporter:
    """The listener that passes a run's progress on: every event, but of the many steps only one now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] == "step":
            # Only a step moves the deadline: probes and epochs come so often that no step would ever reach it.
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + SECONDS_BETWEEN_REPORTS
        say(self._out, "event", event)


def say(out: TextIO, kind: str, value: Any) -> None:
    out.write(json.dumps({kind: value}) + "\n")
    out.flush()


def main() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what to do about it, and asks by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.request(number))
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # whatever a library prints must not mix with the answers

    from tfcsr import plugins
    from tfcsr.experiments.machine import keep_freed_memory
    from tfcsr.experiments.run import run
    from tfcsr.spec import RunSpec

    keep_freed_memory()

    try:
        for source in sys.argv[1:]:
            plugins.load(source)
        for line in sys.stdin:
            try:
                say(out, "result", run(RunSpec.from_dict(json.loads(line)), [Reporter(out)], stop).to_dict())
            except BusyError as error:
                say(out, "busy", str(error))
            except TfcsrError as error:
                say(out, "error", str(error))
    except (Interrupted, TfcsrError) as error:
        say(out, "error", str(error))
    except BrokenPipeError:  # the parent is gone: nobody waits for the answer, and the run can be resumed
        os._exit(1)


if __name__ == "__main__":
    main()
