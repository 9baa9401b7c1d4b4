"""A cluster that is pretended: nodes are lists of slots, slots are objects here, and their processes are threads."""

import concurrent.futures as futures
import itertools
import json
import queue
import sys
import threading
import types
from pathlib import Path
from typing import Any, cast

import pytest

from tests.experiments.conftest import history
from tfcsr.engines import pool, slot
from tfcsr.engines.worker import serve
from tfcsr.errors import TfcsrError
from tfcsr.experiments import run
from tfcsr.experiments.stop import Interrupted, Stop


class Thread:
    """Stands in for a worker and for its process: the same orders and answers, until nobody listens any more."""

    made: list["Thread"]

    def __init__(self, threads: int, plugins: Any = (), at_once: int = 1, env: Any = None) -> None:
        self.plugins, self.at_once, self.env = list(plugins), at_once, dict(env or {})
        self.told: list[dict[str, Any]] = []
        self.stop, self.killed, self.code = Stop(), False, 0
        self.orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = self
        type(self).made.append(self)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            self.begin()
            serve(cast("Any", self), cast("Any", self), self.stop, self.at_once)
        except (Interrupted, TfcsrError) as error:
            self.write(json.dumps({"refused": str(error), "run": None}))
        except BrokenPipeError:
            self.code = -9
        finally:
            self.answers.put(None)

    def begin(self) -> None:
        """What happens before it asks for its first run."""

    def readline(self) -> str:
        return self.orders.get()

    def write(self, line: str) -> None:
        if self.killed:
            raise BrokenPipeError
        self.answers.put(line)

    def flush(self) -> None:
        pass

    def tell(self, order: dict[str, Any] | None) -> None:
        if order is not None:
            self.told.append(order)
        self.orders.put(json.dumps(order))

    def listen(self, heard: Any) -> int:
        while (line := self.answers.get()) is not None:
            answer = json.loads(line)
            run = answer.pop("run")
            ((kind, value),) = answer.items()
            heard(kind, value, run)
        return self.wait()

    def is_alive(self) -> bool:
        return self.thread.is_alive()

    def terminate(self) -> None:
        self.stop.request(15)

    def kill(self) -> None:
        self.killed = True
        self.orders.put("null")

    def wait(self) -> int:
        self.thread.join(10)
        return self.code

    def close(self) -> None:
        self.kill()
        self.wait()


@pytest.fixture
def threads(monkeypatch):
    """Workers are threads of this process. They take turns: torch's random numbers are not made for two at once."""
    kind = type("Threads", (Thread,), {"made": []})
    advance, one_at_a_time = run.advance, threading.Lock()

    def in_turns(*given: Any, **more: Any) -> Any:
        turns = advance(*given, **more)
        while True:
            with one_at_a_time:
                try:
                    next(turns)
                except StopIteration as end:
                    return end.value
            yield

    monkeypatch.setattr(run, "advance", in_turns)
    monkeypatch.setattr(pool, "Worker", kind)
    monkeypatch.setattr(slot, "Worker", kind)
    return kind


class RayError(Exception):
    pass


def plain(value: Any) -> Any:
    """Only what JSON knows, and bytes, may go through Ray."""
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        return {key: plain(entry) for key, entry in value.items()}
    assert value is None or type(value) in (bool, int, float, str, bytes) or isinstance(value, Ref), value
    return value


class Ref(futures.Future):
    pass


class Actor:
    def __init__(self, cluster: "FakeRay", node: int, kind: Any, needs: dict[str, Any]) -> None:
        self.cluster, self.node, self.needs = cluster, node, needs
        self.lost = False
        self.refs: list[Ref] = []
        self.thing = kind()

    def lose(self, why: str) -> None:
        """As when the node is switched off: what it was asked is never answered, its process ends."""
        self.lost = True
        for ref in self.refs:
            if not ref.done():
                ref.set_exception(RayError(why))
        if self.thing._worker is not None:
            self.thing._worker.kill()

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Ref:
            ref = Ref()
            self.refs.append(ref)
            if self.lost:
                ref.set_exception(RayError("The actor is dead"))
                return ref

            def work() -> None:
                try:
                    value = plain(getattr(self.thing, method)(*plain(arguments)))
                except Exception as error:
                    value, problem = None, RayError(f"{type(error).__name__}: {error}")
                else:
                    problem = None
                if not ref.done() and not self.lost:
                    ref.set_exception(problem) if problem else ref.set_result(value)

            threading.Thread(target=work, daemon=True).start()
            return ref

        return types.SimpleNamespace(remote=remote)


class FakeRay(types.ModuleType):
    """As much of the module `ray` as we use."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError)
        self.cpus = [1, 1]
        self.gpus = [0, 0]
        self.alive = [True, True]
        self.actors: list[Actor] = []
        self.started: list[dict[str, Any]] = []
        self.put_away: list[bytes] = []
        self._turn = itertools.count()
        self.open = False

    def is_initialized(self) -> bool:
        return self.open

    def init(self, **settings: Any) -> None:
        self.open = True
        self.started.append(settings)

    def shutdown(self) -> None:
        self.open = False

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": alive, "Resources": {"CPU": float(cpus)} | ({"GPU": float(gpus)} if gpus else {})}
            for alive, cpus, gpus in zip(self.alive, self.cpus, self.gpus, strict=True)
        ]

    def remote(self, kind: Any) -> Any:
        def create(**needs: Any) -> Any:
            def make() -> Actor:
                there = [node for node, alive in enumerate(self.alive) if alive]
                actor = Actor(self, there[next(self._turn) % len(there)], kind, needs)
                self.actors.append(actor)
                return actor

            return types.SimpleNamespace(remote=make)

        return types.SimpleNamespace(options=create)

    def lose_node(self, node: int) -> None:
        self.alive[node] = False
        for actor in self.actors:
            if actor.node == node and not actor.lost:
                actor.lose("The node died")

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        when = futures.FIRST_COMPLETED if num_returns == 1 else futures.ALL_COMPLETED
        done, rest = futures.wait(refs, timeout, when)
        return [ref for ref in refs if ref in done], list(rest)

    def get(self, ref: Ref) -> Any:
        return ref.result(10)

    def put(self, value: Any) -> Ref:
        assert type(value) is bytes
        self.put_away.append(value)
        ref = Ref()
        ref.set_result(value)
        return ref

    def kill(self, actor: Actor) -> None:
        actor.lost = True


@pytest.fixture
def cluster(monkeypatch, threads):
    """Two nodes of a CPU each."""
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield fake
    for actor in fake.actors:
        actor.thing.close()


def same_files(one: Path, other: Path) -> None:
    """Byte for byte, but for the clock, the machine and the folder."""
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    assert history(one) == history(other)
    for name in ("spec.json", "result.json"):
        texts = [(folder / name).read_text().replace(str(folder), "HERE") for folder in (one, other)]
        values = [json.loads(text) for text in texts]
        for value in values:
            value.pop("seconds", None)
            value.pop("environment", None)
        assert values[0] == values[1]
        assert list(values[0]) == list(values[1])
    models = [(folder / "model.safetensors").read_bytes() for folder in (one, other)]
    cuts = [8 + int.from_bytes(model[:8], "little") for model in models]
    heads = [model[8:cut].decode() for model, cut in zip(models, cuts, strict=True)]
    heads = [head.replace(str(folder), "HERE").strip() for head, folder in zip(heads, (one, other), strict=True)]
    assert heads[0] == heads[1]
    assert models[0][cuts[0] :] == models[1][cuts[1] :]
