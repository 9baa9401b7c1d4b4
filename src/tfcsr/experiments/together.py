"""Several runs on one GPU in one process: each on a stream of its own, so that they fill the card side by side."""

import contextlib
import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from tfcsr.errors import OutOfMemoryError, TfcsrError
from tfcsr.experiments.result import Result
from tfcsr.spec import RunSpec

Turns = Generator[None, None, Result]

# More do not make the card any faster: with ResNet-18 and batches of 64, four already fill it.
MOST_AT_ONCE = 8
# A run is started only where free memory is so many times what one has taken so far: a capture needs room to work.
HEADROOM = 2.0


@dataclass
class Lane:
    index: int
    spec: RunSpec
    turns: Turns
    stream: Any

    def use(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream) if self.stream is not None else contextlib.nullcontext()


def _lane(spec: RunSpec, index: int, turns: Turns) -> Lane:
    return Lane(index, spec, turns, torch.cuda.Stream(spec.device) if spec.device.startswith("cuda") else None)


def finish(spec: RunSpec, turns: Turns) -> Result:
    """One run alone."""
    lane = _lane(spec, 0, turns)
    with lane.use():
        while True:
            try:
                next(turns)
            except StopIteration as stop:
                result: Result = stop.value
                return result


def run_together(
    specs: Iterable[RunSpec],
    begin: Callable[[int], Turns],
    callback: Callable[[int, Any], None],
    at_once: int = 0,
) -> None:
    """Runs all specs, `at_once` at a time, or as many as fit the free memory. `callback` gets each index and outcome.
    The next spec is asked for when there is room for it.

    A run that runs out of memory starts again with fewer beside it.
    """
    lanes: list[Lane] = []
    try:
        _drive(lanes, specs, begin, callback, at_once)
    finally:
        if lanes and lanes[0].stream is not None:
            torch.cuda.synchronize()  # what is recorded must not be taken apart while it is being replayed
        for lane in lanes:  # on an interruption: what each has saved is kept, its lock released
            lane.turns.close()


def _drive(
    lanes: list[Lane],
    specs: Iterable[RunSpec],
    begin: Callable[[int], Turns],
    callback: Callable[[int, Any], None],
    at_once: int,
) -> None:
    most = at_once or MOST_AT_ONCE
    coming, more = enumerate(specs), True
    again: deque[tuple[int, RunSpec]] = deque()
    while again or more or lanes:
        if (again or more) and len(lanes) < most and (not lanes or at_once or _fits(lanes[0].spec, len(lanes))):
            found = again.popleft() if again else next(coming, None)
            if found is None:
                more = False
                continue
            index, spec = found
            lanes.append(_lane(spec, index, begin(index)))
        for lane in list(lanes):
            try:
                with lane.use():
                    next(lane.turns)
            except StopIteration as stop:
                lanes.remove(lane)
                callback(lane.index, stop.value)
            except OutOfMemoryError as error:
                lanes.remove(lane)
                if not lanes:
                    callback(lane.index, error)
                    continue
                most = len(lanes)
                again.appendleft((lane.index, lane.spec))
                callback(lane.index, {"event": "out_of_memory", "at_once": most})
                del lane
                gc.collect()
                torch.cuda.empty_cache()
            except TfcsrError as error:
                lanes.remove(lane)
                callback(lane.index, error)


def _fits(spec: RunSpec, running: int) -> bool:
    if not spec.device.startswith("cuda"):
        return True
    free, _ = torch.cuda.mem_get_info(spec.device)
    return free > HEADROOM * torch.cuda.memory_reserved(spec.device) / running
