"""A process that executes runs: takes them as JSON lines on stdin, answers with JSON lines on stdout.

A process of its own, and not Python's multiprocessing, so that a script without a `__main__` guard can compare, and a
process that the system kills takes only its own runs with it. It says when it has room for a run: on a CPU when it has
none in hand, on a GPU as long as another fits beside those it has.
"""

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from tfcsr.errors import BusyError, TfcsrError
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.training.events import Event

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset
    from tfcsr.experiments.together import Turns
    from tfcsr.spec import RunSpec

SECONDS_BETWEEN_REPORTS = 0.2


class Reporter:
    """The listener that passes a run's progress on: every event, but of the many steps only one now and then."""

    def __init__(self, out: TextIO, run: int = 0) -> None:
        self._out = out
        self._run = run
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] == "step":
            # Only a step moves the deadline: probes and epochs come so often that no step would ever reach it.
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + SECONDS_BETWEEN_REPORTS
        say(self._out, "event", event, self._run)


def say(out: TextIO, kind: str, value: Any = None, run: int | None = None) -> None:
    out.write(json.dumps({kind: value, "run": run}) + "\n")
    out.flush()


class Orders:
    """The runs that the parent gives, one whenever it is asked; and what is made of each."""

    def __init__(self, orders: TextIO, out: TextIO, stop: Stop) -> None:
        self.orders, self.out, self.stop = orders, out, stop
        self.taken: list[tuple[int, RunSpec, str | None, Dataset | None]] = []

    def __iter__(self) -> "Iterator[RunSpec]":
        while self.stop.number is None:
            say(self.out, "room")
            order = json.loads(self.orders.readline() or "null")
            if order is None:
                return
            try:
                spec, dataset = _spec_and_data(order)
            except _NoDataError:
                say(self.out, "data", None, order["run"])
            except TfcsrError as error:
                say(self.out, "error", str(error), order["run"])
            else:
                self.taken.append((order["run"], spec, order.get("at"), dataset))
                yield spec

    def begin(self, index: int) -> "Turns":
        from tfcsr.experiments.run import advance

        run, spec, at, dataset = self.taken[index]
        self.taken[index] = (run, spec, at, None)  # the run alone holds its data, as long as it lasts
        return advance(spec, [Reporter(self.out, run)], self.stop, at=at, dataset=dataset)

    def ended(self, index: int, update: Any) -> None:
        run = self.taken[index][0]
        if isinstance(update, TfcsrError):
            say(self.out, "busy" if isinstance(update, BusyError) else "error", str(update), run)
        elif isinstance(update, dict):
            say(self.out, "event", update, run)
        else:
            say(self.out, "result", update.to_dict(), run)


class _NoDataError(Exception):
    """This machine has not the data that the parent means."""


def _spec_and_data(order: dict[str, Any]) -> "tuple[RunSpec, Dataset | None]":
    """The run that is asked for; and its data, where the parent, on another machine, has said which it must be."""
    from tfcsr.data.fingerprint import of_dataset
    from tfcsr.engines import parcel
    from tfcsr.errors import DataError
    from tfcsr.experiments.machine import on_this_machine
    from tfcsr.experiments.origin import load
    from tfcsr.spec import RunSpec

    fingerprint = order.get("data")
    if fingerprint is None:
        return on_this_machine(RunSpec.from_dict(order["spec"])), None
    shipped = parcel.find(fingerprint)
    if shipped is not None:
        parcel.adopt(order["spec"]["benchmark"], shipped)
        return on_this_machine(RunSpec.from_dict(order["spec"])), shipped
    try:
        spec = on_this_machine(RunSpec.from_dict(order["spec"]))
    except DataError:
        raise _NoDataError from None
    try:
        dataset = load(spec)
        there = of_dataset(dataset)
    except Exception:  # whatever somebody's own benchmark says where its files are not
        raise _NoDataError from None
    if there != fingerprint:
        raise _NoDataError
    return spec, dataset


def serve(orders: TextIO, out: TextIO, stop: Stop, at_once: int) -> None:
    """Execute what the parent gives, until there is no more."""
    from tfcsr.experiments.machine import settings
    from tfcsr.experiments.together import run_together

    given = Orders(orders, out, stop)
    specs = iter(given)
    for first in specs:
        with settings(first):  # those that follow have the same switches
            run_together(itertools.chain([first], specs), given.begin, given.ended, at_once)


def main() -> None:
    # Ctrl-C reaches every process of the terminal; the parent decides what to do about it, and asks by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.request(number))
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # whatever a library prints must not mix with the answers

    from tfcsr import plugins
    from tfcsr.experiments.machine import keep_freed_memory

    keep_freed_memory()
    asked = json.loads(sys.argv[1])
    try:
        for source, known_as in asked["plugins"]:
            plugins.load(source, known_as)
        serve(sys.stdin, out, stop, asked["at_once"])
    except (Interrupted, TfcsrError) as error:
        say(out, "refused", str(error))
    except BrokenPipeError:  # the parent is gone: nobody waits for the answer, and the runs can be resumed
        os._exit(1)


if __name__ == "__main__":
    main()
