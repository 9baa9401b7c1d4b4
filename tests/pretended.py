"""Processes that are threads: as many as one likes, without the seconds that starting one takes."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tfcsr import processes
from tfcsr.processes import ALONE, Processes

LONGEST = 60.0


class Meeting:
    """Where they exchange what they have."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=LONGEST)
        self.given: list[Tensor | None] = [None] * count


class Pretended(Processes):
    def __init__(self, meeting: Meeting, number: int, count: int) -> None:
        super().__init__(number, count, local=number, beside=count)
        self.meeting = meeting

    def _gather(self, own: Tensor) -> Tensor:
        self.meeting.given[self.number] = own.detach().clone()
        self.meeting.barrier.wait()
        found = torch.stack([given for given in self.meeting.given if given is not None])
        self.meeting.barrier.wait()
        return found

    def _sum(self, tensor: Tensor) -> None:
        tensor.copy_(self._gather(tensor).sum(dim=0))

    def _broadcast(self, tensor: Tensor) -> None:
        # What is sent may be of no size where it is received: only that of the first counts.
        tensor.copy_(self._gather(tensor)[0])


class Threads:
    """Work that all processes do at the same time; each is `here` in its own thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.local = threading.local()
        monkeypatch.setattr(processes, "here", lambda: getattr(self.local, "here", ALONE))

    def make(self, count: int, make: Callable[[], Any]) -> list[Any]:
        """What each makes, one after another: torch's global generator is borrowed for it."""
        meeting, made = Meeting(count), []
        self.all = [Pretended(meeting, number, count) for number in range(count)]
        for one in self.all:
            self.local.here = one
            made.append(make())
        self.local.here = ALONE
        return made

    def run(self, works: list[Callable[[], Any]]) -> list[Any]:
        found: list[Any] = [None] * len(works)

        def work(number: int) -> None:
            self.local.here = self.all[number]
            torch.set_num_threads(1)
            try:
                found[number] = works[number]()
            except BaseException as error:
                found[number] = error
                self.all[number].meeting.barrier.abort()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # they wait for each other more than they work
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        for error in sorted((f for f in found if isinstance(f, BaseException)), key=_is_late):
            raise error
        return found


def _is_late(error: BaseException) -> bool:
    """Of one that waited for another in vain."""
    return isinstance(error, threading.BrokenBarrierError)
