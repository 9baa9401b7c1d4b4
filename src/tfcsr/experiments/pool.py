"""Runs in several processes at once: this side of `worker.py`."""

import contextlib
import functools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import tfcsr
from tfcsr.errors import BusyError, TfcsrError
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.spec import RunSpec
from tfcsr.training.events import Event

SECONDS_BETWEEN_LOOKS = 0.05
Update = Event | Result | TfcsrError


class Worker:
    """One process, given one spec after another."""

    def __init__(self, threads: int, plugins: Sequence[str] = ()) -> None:
        source = str(Path(tfcsr.__file__).parents[1])
        # What this process can import, that one can: its plugins' neighbours, and a script's.
        path = os.pathsep.join([source, *(entry or str(Path.cwd()) for entry in sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfcsr.experiments.worker", *plugins],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
        )

    def run(self, spec: RunSpec, on_event: Callable[[Event], None]) -> Result | TfcsrError:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(spec.to_dict()) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                kind, value = next(iter(json.loads(line).items()))
                if kind == "event":
                    on_event(value)
                elif kind == "result":
                    return Result.from_dict(value)
                else:
                    return BusyError(value) if kind == "busy" else TfcsrError(value)
        code = self.process.wait()
        return TfcsrError(f"the process of {spec.name()} ended with code {code}: was it killed, or out of memory?")

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """An idle worker ends when there is nothing more to read."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


def run_in_processes(
    specs: list[RunSpec],
    workers: int,
    callback: Callable[[int, Update], None],
    stop: Stop,
    plugins: Sequence[str] = (),
) -> None:
    """Runs all specs, `workers` at once. `callback` gets a spec's index and each update, one call at a time. If it
    raises, all runs end.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(specs)):
        todo.put(i)
    lock = threading.Lock()
    open_workers: set[Worker] = set()
    raised: list[BaseException] = []
    ended = threading.Event()

    def call_back_in_turn(i: int, update: Update) -> None:
        with lock:
            callback(i, update)

    def work() -> None:
        try:
            take_turns()
        except BaseException as error:
            raised.append(error)

    def take_turns() -> None:
        worker: Worker | None = None
        with contextlib.suppress(queue.Empty):
            while stop.number is None and not raised:
                i = todo.get_nowait()
                if worker is None or not worker.is_alive():
                    worker = Worker(specs[i].threads, plugins)
                    open_workers.add(worker)
                    if ended.is_set():  # while this one was starting: nobody else will end it
                        worker.process.kill()
                outcome = worker.run(specs[i], functools.partial(call_back_in_turn, i))
                # One that was asked to stop before it could listen has failed, but not by itself.
                if isinstance(outcome, Result) or stop.number is None:
                    call_back_in_turn(i, outcome)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    try:
        for thread in threads:
            thread.start()
        asked: set[Worker] = set()
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(SECONDS_BETWEEN_LOOKS)
            if raised:
                raise raised[0]
            if stop.number is not None:
                for worker in open_workers - asked:
                    worker.process.terminate()
                    asked.add(worker)
        if raised:
            raise raised[0]
        if stop.number is not None:
            raise Interrupted(stop.number)
    except BaseException:  # a second Ctrl-C above all: what is complete stays, what is under way ends here
        ended.set()
        with contextlib.suppress(queue.Empty):
            while True:
                todo.get_nowait()
        for worker in list(open_workers):
            worker.process.kill()
        raise
    finally:
        for worker in list(open_workers):
            worker.close()
