"""A Ray cluster: this side of `slot.py`. A slot per run on a CPU, or per GPU, which its runs share.

The folders here are the only truth: see `home.py`. A slot that is lost with its node costs what its runs have done
since their last checkpoints came home.
"""

import importlib
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfcsr.engines import Engine, Watcher, alike, needed_plugins, parcel
from tfcsr.engines.away import CHECKPOINT, EVENTS, MODEL
from tfcsr.engines.home import Home
from tfcsr.engines.local import shares
from tfcsr.engines.pool import ended, outcome
from tfcsr.engines.slot import Message, Slot, versions
from tfcsr.errors import DeviceError, SpecError, TfcsrError
from tfcsr.experiments.machine import cores, on_device
from tfcsr.experiments.origin import Origins, load
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.spec import RunSpec

SECONDS_TO_REACH = 5.0
SECONDS_BETWEEN_LOOKS = 0.1
# How often the cluster is asked how large it is: nodes come and go.
SECONDS_BETWEEN_COUNTS = 2.0
# How often a slot tells what is not urgent; with many slots less often, so that this process can follow.
SECONDS_BETWEEN_UPDATES = 0.2
MOST_UPDATES_A_SECOND = 200
# How often a run's checkpoint comes home; less often where to write them would take more of this process's time.
SECONDS_BETWEEN_CHECKPOINTS = 2.0
SHARE_FOR_CHECKPOINTS = 0.2
SECONDS_TO_CLOSE = 5.0
# A run is given up that was lost so often without a checkpoint coming home in between; and a cluster on which so many
# slots in a row could not even begin.
MOST_LOSSES = 5

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a warning about what it will do one day
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # what a node says when it dies; we say it in one line
    "RAY_worker_niceness": "0",  # a local run is not nice either
}


class Ray(Engine):
    """On the cluster at `address`, as `ray.init` takes it; without one on $RAY_ADDRESS, or on this machine alone. Where
    the program has called `ray.init` itself, that cluster is used and left as it is.
    """

    def __init__(self, workers: int = 0, address: str | None = None) -> None:
        super().__init__(workers)
        self.address = address
        self._ray: Any = None
        self._ours = False
        self._nodes: list[dict[str, float]] = []
        self._counted_at = float("-inf")
        self.plugins: list[tuple[str, str | None]] = []

    @property
    def ray(self) -> Any:
        """The module, once it is connected."""
        if self._ray is None:
            self._ray, self._ours = connect(self.address)
        return self._ray

    def close(self) -> None:
        if self._ours and self._ray is not None:
            self._ray.shutdown()
        self._ray, self._ours, self._counted_at = None, False, float("-inf")

    def most(self, resource: str) -> int:
        """What the node has that has most of it."""
        return max((int(node.get(resource, 0)) for node in self.nodes()), default=0)

    def nodes(self) -> list[dict[str, float]]:
        """The resources of each, as of a moment ago."""
        if time.monotonic() >= self._counted_at + SECONDS_BETWEEN_COUNTS:
            self._nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self._counted_at = time.monotonic()
        return self._nodes

    def fitted(self, spec: RunSpec, threads: int = 0) -> RunSpec:
        device = spec.device
        if device == "auto":
            device = "cuda" if self.most("GPU") else "cpu"
        fitted = on_device(spec, device, threads or 1)
        self._require(fitted)
        return fitted

    def _require(self, spec: RunSpec) -> None:
        if spec.get("buffer_on") == "disk":
            raise SpecError("buffer_on disk: a run's buffer does not travel with Ray; use ram, or --engine local")
        if spec.device == "cpu":
            if spec.threads > 1 and spec.threads > (most := self.most("CPU")):
                raise DeviceError(f"threads {spec.threads}: no node of the Ray cluster has more than {most} CPUs")
        elif spec.device != "cuda":
            raise DeviceError(f"device {spec.device}: Ray decides which GPU a run gets; use --device cuda")
        elif not self.most("GPU"):
            raise DeviceError("device cuda: no node of the Ray cluster has a GPU; use --device cpu")

    def prepare(self, specs: list[RunSpec]) -> int:
        sources, problem = needed_plugins(specs)
        if problem:
            raise SpecError(f"engine ray: {problem}")
        self.plugins = [(source, _text(source)) for source in sources]
        groups = alike(specs)
        for group in groups:
            self._require(group[0])
        return max(self.workers if group[0].device == "cuda" else self.room(group) for group in groups)

    def room(self, specs: list[RunSpec]) -> int:
        """How many slots for these runs the cluster has; what others have taken is counted too: it will be free."""
        name, each = ("GPU", 1) if specs[0].device == "cuda" else ("CPU", specs[0].threads)
        there = sum(int(node.get(name, 0)) // each for node in self.nodes())
        # One that waits for a node to come is better than none. On a GPU there may be several runs in one.
        return min(len(specs), self.workers or len(specs), max(1, there))

    def run(self, specs: list[RunSpec], watcher: Watcher, stop: Stop, origins: Origins) -> None:
        for group in alike(specs):
            Grid(self, group, watcher, stop, origins).run()


def _text(source: str) -> str | None:
    """Of a plugin that is a file. A module has to be installed on the nodes."""
    path = Path(source)
    if path.suffix != ".py" and os.sep not in source:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SpecError(f"plugin {source} cannot be read: {error}") from None


def connect(address: str | None) -> tuple[Any, bool]:
    """Ray, connected, and whether that was done here."""
    with _surroundings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise SpecError("engine ray needs Ray, which is not installed: pip install 'tfcsr[ray]'") from None
        if ray.is_initialized():
            return ray, False
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        _require_reachable(address)
        mine = {"num_cpus": cores(), "include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **mine)
        except Exception as error:  # it has many kinds
            what = "start Ray" if mine else f"connect to Ray at {address}"
            raise SpecError(f"cannot {what}: {_line(error)}") from None
    return ray, True


def _require_reachable(address: str) -> None:
    """Refuse at once what Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address in ("local", "auto"):
        return
    if not (colon and host and port.isdecimal()):
        raise SpecError(f"address {address!r} is none: use auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH).close()
    except (OSError, OverflowError) as error:
        raise SpecError(f"cannot connect to Ray at {address}: {error}; is `ray start --head` running there?") from None


@contextmanager
def _surroundings() -> Iterator[None]:
    """Ray reads its settings from the environment, and puts its own handlers in the place of ours."""
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update({name: value for name, value in QUIET.items() if before[name] is None})
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
        for number, handler in handlers.items():
            if handler is not None:  # else it was not Python's
                signal.signal(number, handler)


def _line(error: BaseException) -> str:
    """The line of an error that says something; of a remote one the last, which is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]


@dataclass(eq=False)
class Job:
    """A run that is to be executed."""

    number: int
    spec: RunSpec
    home: Home
    data: str
    losses: int = 0


@dataclass(eq=False)
class Seat:
    """A slot, as it is known here."""

    actor: Any
    at_once: int
    host: str = ""
    greeted: bool = False
    begun: bool = False  # its process has asked for a run
    hungry: bool = False  # it waits for one
    fetching: bool = False  # data is on its way to it
    refusal: str = ""
    jobs: dict[int, Job] = field(default_factory=dict)

    def error(self, problem: str) -> TfcsrError:
        return TfcsrError(f"{problem} (on node {self.host})")


class Grid:
    """Runs that can run side by side, and the slots they run in."""

    def __init__(self, engine: Ray, specs: list[RunSpec], watcher: Watcher, stop: Stop, origins: Origins) -> None:
        self.engine, self.ray = engine, engine.ray
        self.specs, self.watcher, self.stop = specs, watcher, stop
        self.jobs = [Job(i, spec, Home(spec, origins[spec]), origins[spec]["data"]) for i, spec in enumerate(specs)]
        self.todo = deque(self.jobs)
        self.open = len(specs)  # runs of which it is not known yet how they end
        self.seats: set[Seat] = set()
        self.calls: dict[Any, tuple[Seat, Callable[[Seat, Any], None]]] = {}
        self.closing: dict[Any, Seat] = {}
        self.parcels: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {}
        self.failures = 0  # of slots in a row, to begin at all
        self.cost = 0.0  # seconds that a checkpoint takes here
        self.room = 0

    def run(self) -> None:
        asked_to_stop = False
        try:
            while self.open and (self.seats or self.stop.number is None):
                if self.stop.number is None:
                    self.fill()
                elif not asked_to_stop:
                    asked_to_stop = True
                    self.ask_to_stop()
                for seat in [seat for seat in self.seats if seat.hungry and not seat.fetching]:
                    self.feed(seat)
                self.wait()
            if self.stop.number is not None:
                raise Interrupted(self.stop.number)
        finally:
            self.close()

    def close(self) -> None:
        for seat in list(self.seats):
            self.dismiss(seat)
        if self.closing:
            self.ray.wait(list(self.closing), num_returns=len(self.closing), timeout=SECONDS_TO_CLOSE)
        for seat in self.closing.values():
            self.ray.kill(seat.actor)
        for job in self.jobs:
            job.home.close()

    # Slots

    def fill(self) -> None:
        """As many slots as the cluster has room for and there are runs for."""
        self.room = self.engine.room(self.specs)
        waiting = [seat for seat in self.seats if not seat.greeted]
        for place in range(len(self.seats), min(self.room, len(self.seats) - len(waiting) + len(self.todo))):
            self.add_seat(place)
        if not self.todo:
            for seat in waiting:
                self.dismiss(seat)

    def add_seat(self, place: int) -> None:
        on_gpu = self.specs[0].device == "cuda"
        at_once = shares([""] * self.room, self.engine.workers)[place][1] if on_gpu else 1
        remote = self.ray.remote(Slot).options(
            num_cpus=self.specs[0].threads,
            num_gpus=int(on_gpu),
            max_concurrency=4,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        seat = Seat(remote.remote(), at_once)
        self.seats.add(seat)
        self.call(seat, "hello", self.greeted)

    def greeted(self, seat: Seat, there: dict[str, str]) -> None:
        seat.host, seat.greeted, self.failures = str(there["host"]), True, 0
        for name, version in versions().items():
            if there[name] != version:
                raise SpecError(
                    f"node {seat.host} has {name} {there[name]}, this machine {version}: results would differ; install"
                    " the same on both"
                )
        self.start(seat)
        self.listen(seat)

    def start(self, seat: Seat) -> None:
        seat.begun, seat.hungry, seat.refusal = False, False, ""
        self.call(seat, "start", self.went_well, self.engine.plugins, self.specs[0].threads, seat.at_once)

    def listen(self, seat: Seat) -> None:
        pause = max(SECONDS_BETWEEN_UPDATES, len(self.seats) / MOST_UPDATES_A_SECOND)
        between = max(SECONDS_BETWEEN_CHECKPOINTS, self.cost * len(self.seats) / SHARE_FOR_CHECKPOINTS)
        self.call(seat, "updates", self.heard, pause, between)

    def call(self, seat: Seat, method: str, then: Callable[[Seat, Any], None], *arguments: Any) -> None:
        self.calls[getattr(seat.actor, method).remote(*arguments)] = (seat, then)

    def went_well(self, seat: Seat, value: Any) -> None:
        """Nothing is to be done then."""

    def wait(self) -> None:
        """Until something has come back, or for a moment."""
        refs = [*self.calls, *self.closing]
        if not refs:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            return
        ready, _ = self.ray.wait(refs, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
        if ready:
            ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            if ref in self.closing:
                self.ray.kill(self.closing.pop(ref).actor)
            elif ref in self.calls:  # else its slot was dismissed just now
                seat, then = self.calls.pop(ref)
                try:
                    value = self.ray.get(ref)
                except self.ray.exceptions.RayError as error:
                    self.lost(seat, error)
                else:
                    then(seat, value)

    def lost(self, seat: Seat, error: BaseException) -> None:
        """A slot that does not answer any more: its runs go on elsewhere, from what has come home of them."""
        if not seat.greeted:
            self.failures += 1
            if self.failures >= MOST_LOSSES:
                raise TfcsrError(
                    f"engine ray: the nodes cannot run tfcsr ({_line(error)}); install the same tfcsr there as here"
                )
        jobs = list(seat.jobs.values())
        self.dismiss(seat)
        for job in jobs:
            job.losses += 1
            if job.losses < MOST_LOSSES:
                self.watcher(job.spec, {"event": "node_lost", "node": seat.host})
            else:
                self.todo.remove(job)
                lost = f"{job.spec.name()} was lost {job.losses} times with the process or node it ran on"
                self.end(job, TfcsrError(f"{lost} ({_line(error)}): does it fit the memory there?"))

    def dismiss(self, seat: Seat) -> None:
        """A slot that is not needed any more, or is no good. The runs that it had are to be run again."""
        self.seats.discard(seat)
        self.todo.extendleft(reversed(seat.jobs.values()))
        seat.jobs.clear()
        for ref in [ref for ref, (whose, _) in self.calls.items() if whose is seat]:
            del self.calls[ref]
        if seat.greeted:
            self.closing[seat.actor.close.remote()] = seat
        else:
            self.ray.kill(seat.actor)

    def ask_to_stop(self) -> None:
        for seat in list(self.seats):
            if seat.greeted:
                self.call(seat, "stop", self.went_well)
            else:
                self.dismiss(seat)

    # Runs

    def feed(self, seat: Seat) -> None:
        """The next run for a slot that has room for one; or the word that there is none."""
        seat.hungry = False
        while self.todo and self.stop.number is None:
            job = self.todo.popleft()
            try:
                complete = job.home.claim()
                files = job.home.files()
            except TfcsrError as error:
                self.end(job, error)
                continue
            if complete is not None:
                self.end(job, complete)
                continue
            seat.jobs[job.number] = job
            self.call(seat, "give", self.given, job.number, job.spec.to_dict(), files, job.data)
            return
        self.call(seat, "give", self.went_well, None, {}, {}, "")

    def given(self, seat: Seat, refused: tuple[int, str] | None) -> None:
        if refused is not None and (job := seat.jobs.pop(refused[0], None)) is not None:
            seat.hungry = True
            self.end(job, seat.error(refused[1]))

    def end(self, job: Job, update: Result | TfcsrError) -> None:
        job.home.close()
        self.open -= 1
        # One that was stopped has failed, but not by itself.
        if isinstance(update, Result) or self.stop.number is None:
            self.watcher(job.spec, update)

    def heard(self, seat: Seat, messages: list[Message]) -> None:
        for number, kind, value in messages:
            if seat not in self.seats:  # the message before was its last
                return
            if number is None:
                self.of_process(seat, kind, value)
            elif (job := seat.jobs.get(number)) is not None:
                self.of_run(seat, job, kind, value)
        if seat in self.seats:
            self.listen(seat)

    def of_process(self, seat: Seat, kind: str, value: Any) -> None:
        if kind == "room":
            seat.begun = seat.hungry = True
        elif kind == "refused":
            seat.refusal = str(value)
        elif kind == "ended":
            jobs = list(seat.jobs.values())
            seat.jobs.clear()
            if not seat.begun and self.todo:
                jobs = [self.todo.popleft()]  # one run bears the blame, the next process tries the others
            for job in jobs:
                self.end(job, seat.error(seat.refusal) if seat.refusal else seat.error(str(ended(job.spec, value))))
            if self.todo and self.stop.number is None:
                self.start(seat)
            else:
                self.dismiss(seat)

    def of_run(self, seat: Seat, job: Job, kind: str, value: Any) -> None:
        if kind == "event":
            self.watcher(job.spec, value)
            return
        try:
            update = self.taken(seat, job, kind, value)
        except TfcsrError as error:  # it cannot be kept here
            update = error
        if update is not None:
            seat.jobs.pop(job.number, None)
            self.end(job, update)
            if kind in (EVENTS, CHECKPOINT, MODEL):  # the slot is still at it, in vain
                self.dismiss(seat)

    def taken(self, seat: Seat, job: Job, kind: str, value: Any) -> Result | TfcsrError | None:
        """What a message makes of a run: how it ended, or None."""
        if kind == "result":
            return job.home.finish(value)
        if kind in ("error", "busy"):
            return outcome(kind, f"{value} (on node {seat.host})")
        if kind == "data":
            self.ship(seat, job)
            return None
        started = time.monotonic()
        job.home.take(kind, value)
        if kind == CHECKPOINT:
            job.losses, self.cost = 0, time.monotonic() - started
        return None

    def ship(self, seat: Seat, job: Job) -> None:
        """Bring a run's data to the node of a slot; the run waits for that."""
        if job.data not in self.parcels:
            dataset = load(job.spec)
            parts = [(name, self.ray.put(part)) for name, part in parcel.chunks(dataset)]
            self.parcels[job.data] = parcel.about(dataset), parts
        del seat.jobs[job.number]
        self.todo.appendleft(job)
        seat.fetching = True

        def arrived(seat: Seat, problem: str) -> None:
            seat.fetching = False
            if problem and job in self.todo:
                self.todo.remove(job)
                self.end(job, seat.error(problem))

        self.call(seat, "lay_out", arrived, job.data, *self.parcels[job.data])
