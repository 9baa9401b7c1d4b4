"""How long runs should take, said before they are begun."""

import contextlib
import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean, median
from typing import Any

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import TfcsrError
from tfcsr.experiments.origin import load
from tfcsr.experiments.result import Result
from tfcsr.experiments.study import Study
from tfcsr.methods import METHODS
from tfcsr.spec import RunSpec

MNIST, CIFAR = "split-mnist", "split-cifar100"
EXAMPLES = {MNIST: 60_000, CIFAR: 50_000}
# On an H200 (docs/speed.md): seconds a step with several runs beside each other, evaluation included, and what it takes
# to compile the steps of a method while all runs wait.
GPU_SECONDS = {"resnet18": 0.0013}
OTHER_GPU_SECONDS = 0.0004
COMPILE_SECONDS = 20.0
# How long a run is tried for here, from its first step on; and the start of processes, where that was not measured.
TRIAL_SECONDS = 6.0
LONG_ENOUGH = 1.0
SECONDS_OF_STEPS = 2.0
START_SECONDS = 4.0


@dataclass(frozen=True)
class Kind:
    """Runs whose steps take about as long as each other's. A benchmark's images may be sixteen times another's."""

    benchmark: str
    model: str
    method: str


def kind_of(spec: RunSpec) -> Kind:
    return Kind(spec.benchmark, spec.model, spec.method)


def expected_steps(spec: RunSpec) -> int:
    """How many steps a run takes; where its method decides as it goes, at most."""
    if spec.steps:
        return int(spec.steps * spec.tasks)
    examples = EXAMPLES.get(spec.benchmark) or len(load(spec).train_y)
    if spec.max_per_class:
        examples = min(examples, spec.max_per_class * BENCHMARKS.get(spec.benchmark).classes)
    # Where a benchmark changes its images from task to task, each task has all of them.
    of_task = examples * (1 - spec.held_out) / (1 if BENCHMARKS.get(spec.benchmark).change else spec.tasks)
    again = of_task * spec.repeat / (1 - spec.repeat)
    sizes = [of_task, *[of_task + again] * (spec.tasks - 1)]
    if METHODS.get(spec.method).sees_all_tasks and spec.get("joint_epoch") != "newest":
        sizes = list(accumulate(sizes))
    batch = spec.batch_size
    if spec.get("new_data") == "all":  # then half a batch or more is old, and an epoch has so many more of them
        batch -= spec.get("replay_per_batch") or batch // 2
    epochs: int = spec.get("max_epochs", spec.epochs)
    # Classes are not all of one size: a task rounds up half a batch, on the average.
    return round(sum(epochs * max(1.0, -(-size // batch)) for size in sizes))


def _has_data(spec: RunSpec) -> bool:
    try:
        load(spec)
    except TfcsrError:
        return False
    return True


def expected_seconds(
    study: Study, specs: Sequence[RunSpec], device: str, workers: int, data_dir: str | None = None
) -> tuple[float, str]:
    """How long these runs should take together on this machine, and by what that is judged."""
    from tfcsr.engines import require_workers
    from tfcsr.experiments.machine import cores, environment, on_this_machine

    require_workers(workers)
    here = [on_this_machine(spec.replace(device=device, data_dir=data_dir), threads=1) for spec in specs]
    machine = environment(here[0])
    if here[0].device != "cpu":
        return _on_gpu(study, here, machine)
    at_once = min(len(here), workers or cores())
    rates = _of_finished(study, here, machine)
    sources = {"finished runs"} if rates else set()
    start = START_SECONDS if at_once > 1 else 0.0
    for place in dict.fromkeys((spec.benchmark, spec.model) for spec in here if kind_of(spec) not in rates):
        like = [spec for spec in here if (spec.benchmark, spec.model) == place]
        trial = Trial({}, 0.0)
        if _has_data(like[0]):
            trial = _tried([spec for spec in like if kind_of(spec) not in rates], like, at_once)
        if trial.rates:
            sources.add("a trial of a few seconds here")
            start = max(start, trial.start)
        else:
            trial = Trial({kind_of(like[0]): seconds_a_step(like[0])}, 0.0)
            sources.add("a few bare steps here, without the data: it will be more")
        mean = fmean(trial.rates.values())
        rates |= {kind: trial.rates.get(kind, mean) for kind in map(kind_of, like) if kind not in rates}
    # Runs that differ in their seed alone have the same steps.
    steps: dict[RunSpec, int] = {}
    for spec in here:
        if spec.replace(seed=0) not in steps:
            steps[spec.replace(seed=0)] = expected_steps(spec)
    total = start + span((steps[spec.replace(seed=0)] * rates[kind_of(spec)] for spec in here), at_once)
    return total, " and ".join(sorted(sources, reverse=True))


def span(seconds: Iterable[float], at_once: int) -> float:
    """How long runs take together when so many go on at once and the next begins where one has ended: the last ones may
    leave some workers idle.
    """
    ends = [0.0] * max(1, at_once)
    for one in seconds:
        heapq.heappush(ends, heapq.heappop(ends) + one)
    return max(ends)


def _on_gpu(study: Study, specs: Sequence[RunSpec], machine: Mapping[str, Any]) -> tuple[float, str]:
    """Runs share the card, so that only what they take together can be known: of past sessions, all of it."""
    from tfcsr.training.loop import COMPILE_FROM_STEPS

    steps = [expected_steps(spec) for spec in specs]
    sessions = [s for s in study.records.sessions if s["machine"].get("gpu") == machine["gpu"]]
    done = sum(r.optimizer_steps for r in study.records.runs if r.environment.get("gpu") == machine["gpu"])
    if sessions and done:
        return sum(steps) * sum(session["seconds"] for session in sessions) / done, "finished sessions"
    total = sum(
        count * GPU_SECONDS.get(spec.model, OTHER_GPU_SECONDS) for spec, count in zip(specs, steps, strict=True)
    )
    compiled = {kind_of(spec) for spec, count in zip(specs, steps, strict=True) if count >= COMPILE_FROM_STEPS}
    return total + COMPILE_SECONDS * len(compiled), "an H200"


def _of_finished(study: Study, specs: Sequence[RunSpec], machine: Mapping[str, Any]) -> dict[Kind, float]:
    """Seconds a step, of the kinds that have finished runs made on such a machine."""
    found: dict[Kind, list[float]] = {}
    for record in study.records.runs:
        same = all(record.environment.get(name) == machine[name] for name in ("processor", "cores", "gpu"))
        if same and record.spec["device"] == specs[0].device:
            found.setdefault(kind_of(record.run_spec), []).append(record.seconds / record.optimizer_steps)
    return {kind: median(found[kind]) for kind in map(kind_of, specs) if kind in found}


@dataclass(frozen=True)
class Trial:
    rates: Mapping[Kind, float]  # seconds a step, with all that a run does beside
    start: float  # until the first step: processes, imports, data


class _Enough(Exception):
    pass


def _tried(specs: Sequence[RunSpec], like: Sequence[RunSpec], at_once: int) -> Trial:
    """Begin runs as they will be begun, one of each kind and as many at once, and end them after some seconds. Nothing
    is written. What fails is not told of: the run itself will say so.
    """
    from tfcsr.experiments.compare import execute

    first = {kind_of(spec): spec for spec in reversed(specs)}
    # So many at once in any case: they slow each other down.
    chosen = list(dict.fromkeys([*reversed(first.values()), *like]))
    chosen = [spec.replace(out=None) for spec in chosen[: max(len(first), at_once)]]
    began = time.monotonic()
    seen: dict[RunSpec, Progress] = {}

    def watch(spec: RunSpec, update: Any) -> None:
        now = time.monotonic()
        if isinstance(update, Result):
            seen.setdefault(spec, Progress(now)).finished(update)
        elif isinstance(update, dict):
            seen.setdefault(spec, Progress(now)).add(now, update)
        started = [one.started for one in seen.values() if one.steps]
        if started and now - min(started) > TRIAL_SECONDS:
            raise _Enough

    with contextlib.suppress(_Enough):
        execute(chosen, at_once, watch)
    known: dict[Kind, Progress] = {}
    for spec, progress in seen.items():
        known.setdefault(kind_of(spec), Progress(0.0)).join(progress)
    # One that had hardly begun says little, but may be all there is.
    long = [one for one in known.values() if one.seconds >= LONG_ENOUGH] or [o for o in known.values() if o.counted]
    if not long:
        return Trial({}, 0.0)
    mean = sum(one.seconds for one in long) / sum(one.counted for one in long)
    rates = {kind: one.seconds / one.counted if one in long else mean for kind, one in known.items()}
    return Trial(rates, min(one.started for one in seen.values()) - began)


class Progress:
    """How far a run on trial has come."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.steps = 0
        self._before = 0  # steps of the epochs that are done
        self._first: tuple[float, int] | None = None
        self.seconds = 0.0  # from the first step that was seen to the last, and the steps between
        self.counted = 0

    def add(self, now: float, event: Mapping[str, Any]) -> None:
        if event["event"] == "step":
            self.steps = self._before + event["step"]
        elif event["event"] == "epoch_finished":
            self.steps = self._before = event["optimizer_steps"]
        if self.steps and self._first is None:  # which is slow: memory is asked for, kernels are chosen
            self._first = now, self.steps
        elif self._first is not None and self.steps > self._first[1]:
            self.seconds, self.counted = now - self._first[0], self.steps - self._first[1]

    def finished(self, result: Result) -> None:
        self.seconds, self.counted = result.seconds, result.optimizer_steps
        self.steps = self.counted

    def join(self, other: "Progress") -> None:
        self.seconds += other.seconds
        self.counted += other.counted


def seconds_a_step(spec: RunSpec) -> float:
    """Measured on this CPU with random images, and with nothing of the method."""
    import torch

    from tfcsr.experiments.machine import settings
    from tfcsr.training.loop import build_model

    shape = (3, 32, 32) if spec.benchmark == CIFAR else (1, 28, 28) if spec.benchmark == MNIST else None
    if shape is None:
        shape = load(spec).train_x.shape[1:]
    with settings(spec):
        model = build_model(spec, shape, BENCHMARKS.get(spec.benchmark).classes)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        x = torch.rand(spec.batch_size, *shape).contiguous(memory_format=torch.channels_last)
        times = []
        for _ in range(4):
            started = time.perf_counter()
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=spec.precision == "bf16"):
                loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.int64))
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - started)
            if sum(times) > SECONDS_OF_STEPS:
                break
        return min(times)
