"""Runs in several processes at once: this side of `worker.py`."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tfcsr
from tfcsr.errors import BusyError, TfcsrError
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.spec import RunSpec
from tfcsr.training.events import Event

SECONDS_BETWEEN_LOOKS = 0.05
Update = Event | Result | TfcsrError


class Worker:
    """One process, given a run whenever it has room for one: `at_once` of them, or with 0 as many as fit its GPU.
    `plugins` are what it has to import, each with what the parent knows it as.
    """

    def __init__(
        self,
        threads: int,
        plugins: Sequence[str | tuple[str, str]] = (),
        at_once: int = 1,
        env: Mapping[str, str] | None = None,
    ) -> None:
        source = str(Path(tfcsr.__file__).parents[1])
        # What this process can import, that one can: its plugins' neighbours, and a script's.
        path = os.pathsep.join([source, *(entry or str(Path.cwd()) for entry in sys.path)])
        asked = {"plugins": [(p, p) if isinstance(p, str) else p for p in plugins], "at_once": at_once}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfcsr.engines.worker", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)} | dict(env or {}),
        )

    def tell(self, order: dict[str, Any] | None) -> None:
        """Give it a run; None: there is no more."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which who listens to it will see
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def listen(self, heard: Callable[[str, Any, int | None], None]) -> int:
        """Hands on what it says, as (kind, value, run), until it has ended: its code."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            run = answer.pop("run")
            ((kind, value),) = answer.items()
            heard(kind, value, run)
        return self.process.wait()

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """An idle worker ends when there is nothing more to read."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


def ended(spec: RunSpec, code: int) -> TfcsrError:
    """What becomes of a run whose process has ended."""
    return TfcsrError(f"the process of {spec.name()} ended with code {code}: was it killed, or out of memory?")


def outcome(kind: str, value: Any) -> Result | TfcsrError:
    if kind == "result":
        return Result.from_dict(value)
    return BusyError(value) if kind == "busy" else TfcsrError(value)


def run_in_processes(
    specs: list[RunSpec],
    workers: int,
    callback: Callable[[int, Update], None],
    stop: Stop,
    plugins: Sequence[str] = (),
    gpus: Sequence[tuple[str, int]] = (),
) -> None:
    """Runs all specs, `workers` at once; or in a process per GPU, by what CUDA_VISIBLE_DEVICES calls it, as many at
    once as stand beside it. `callback` gets a spec's index and each update, one call at a time. If it raises, all runs
    end.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(specs)):
        todo.put(i)
    lock = threading.Lock()
    open_workers: set[Worker] = set()
    raised: list[BaseException] = []
    over = threading.Event()

    def call_back_in_turn(i: int, update: Update) -> None:
        with lock:
            # One that was asked to stop before it could listen has failed, but not by itself.
            if isinstance(update, dict | Result) or stop.number is None:
                callback(i, update)

    def take() -> int | None:
        with contextlib.suppress(queue.Empty):
            if stop.number is None and not raised:
                return todo.get_nowait()
        return None

    def work(*of_worker: Any) -> None:
        try:
            while stop.number is None and not raised and not todo.empty():
                # One that was killed has taken its runs with it: another goes on with the others.
                worker = Worker(specs[0].threads, plugins, *of_worker)
                open_workers.add(worker)
                if over.is_set():  # while this one was starting: nobody else will end it
                    worker.process.kill()
                serve(worker)
        except BaseException as error:
            raised.append(error)

    def serve(worker: Worker) -> None:
        in_hand: set[int] = set()
        refusals: list[TfcsrError] = []
        begun = False

        def heard(kind: str, value: Any, run: int | None) -> None:
            nonlocal begun
            if kind == "room":
                begun = True
                i = take()
                if i is not None:
                    in_hand.add(i)
                worker.tell(None if i is None else {"run": i, "spec": specs[i].to_dict()})
            elif kind == "refused":
                refusals.append(TfcsrError(value))
            elif run is not None and kind == "event":
                call_back_in_turn(run, value)
            elif run is not None:
                in_hand.discard(run)
                call_back_in_turn(run, outcome(kind, value))

        code = worker.listen(heard)
        if not begun and (i := take()) is not None:
            in_hand.add(i)  # one run bears the blame, the next worker tries the others
        for i in sorted(in_hand):
            call_back_in_turn(i, refusals[0] if refusals else ended(specs[i], code))

    crews: list[tuple[Any, ...]] = [(at_once, {"CUDA_VISIBLE_DEVICES": name}) for name, at_once in gpus]
    crews = crews or [()] * workers
    threads = [threading.Thread(target=work, args=crew, daemon=True) for crew in crews]
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
        over.set()
        with contextlib.suppress(queue.Empty):
            while True:
                todo.get_nowait()
        for worker in list(open_workers):
            worker.process.kill()
        raise
    finally:
        for worker in list(open_workers):
            worker.close()
