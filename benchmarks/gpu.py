"""Split CIFAR-100 on a GPU: one run, several at once, a plain eager loop beside them, and the first step of a process.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --only methods --epochs 6          # methods-short: not compiled, as in short runs
    python -m benchmarks.gpu --only first

The images are random, in CIFAR-100's shape: speed does not depend on what is in them, and no data is needed. The first
step counts from the start of a new process; without and with what torch's compiler has kept of an earlier one.
"""

import functools
import itertools
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.measure import Row, arguments, interleaved, ratio, refuse, seconds, show, summary
from benchmarks.training import Training
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.experiments.machine import on_this_machine, settings
from tfcsr.spec import RunSpec
from tfcsr.training import loop
from tfcsr.training.batches import compose, plan_epoch

# How often packed runs of two methods are measured in turns, and a process's first step.
PACKED = 3
METHODS = ("er", "tfcsr-distill")
RECIPE = {"new_data": "half", "augment": "strong", "deterministic": True}


def random_cifar(data_dir: str | None) -> Dataset:
    rng = np.random.default_rng(0)

    def split(per_class: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(100), per_class)
        return rng.integers(0, 256, (len(y), 3, 32, 32), dtype=np.uint8), y

    (train_x, train_y), (test_x, test_y) = split(500), split(100)
    names = tuple(map(str, range(100)))
    return Dataset("random", train_x, train_y, test_x, test_y, names, 255.0, (0.5,) * 3, (0.29,) * 3)


BENCHMARKS.add("random-cifar")(
    Benchmark(random_cifar, 100, 10, {**BENCHMARKS.get("split-cifar100").defaults, "mastery_threshold": 0.0})
)


def spec(**fields: object) -> RunSpec:
    return on_this_machine(RunSpec.from_dict({"benchmark": "random-cifar", "device": "cuda", **fields}))


class OurSteps:
    """The steps of one run, as the loop takes them."""

    def __init__(self, steps: int = 100, **fields: object) -> None:
        self.spec = spec(**{"method": "er", **fields})
        self.stream = torch.cuda.Stream()
        with settings(self.spec), torch.cuda.stream(self.stream):
            self.training = Training(self.spec, random_cifar(None))
            task = self.training.tasks.task(1)
            self.training.method.begin_task(task)
            self.training.steps.begin_task(task.train)
            plan = plan_epoch(self.training.learner, len(task.train), self.training.method.mix(task, 1))
            self.batches = plan[0].each(lambda t: t[:steps])
            self.losses = torch.empty(len(self.batches), device="cuda")
            self.take()

    def take(self) -> None:
        with settings(self.spec), torch.cuda.stream(self.stream):
            for _ in self.training.steps.take(self.batches, self.losses):
                pass
        torch.cuda.synchronize()

    def ms(self) -> float:
        return 1000 * seconds(self.take) / len(self.batches)


class EagerLoop:
    """What one would write first: the same model, batches, augmentation and optimizer, step by step in fp32."""

    def __init__(self, ours: OurSteps, tf32: bool) -> None:
        self.ours = ours
        self.tf32 = tf32
        self.model = loop.build_model(ours.spec, (3, 32, 32), 100).cuda()
        self.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def take(self) -> None:
        torch.backends.cudnn.allow_tf32 = self.tf32
        training = self.ours.training
        data, buffer, views = training.steps.data, training.learner.buffer, training.learner.views
        for i in range(50):
            new, replay, new_crops, old_crops, _ = (None if t is None else t[i] for t in self.ours.batches.positions())
            assert new is not None
            assert replay is not None
            crops = new_crops, old_crops
            x, y = compose(data.x, data.y, buffer.x, buffer.y, views.mean, views.std, new, replay, *crops)
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(x.contiguous()), y)
            loss.backward()
            self.optimizer.step()
        torch.cuda.synchronize()

    def ms(self) -> float:
        return 1000 * seconds(self.take) / 50


def matrix_rate() -> float:
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def multiply() -> None:
        for _ in range(20):
            torch.mm(a, b)
        torch.cuda.synchronize()

    multiply()
    return 20 * 2 * 8192**3 / seconds(multiply)


def step_flops(ours: OurSteps) -> int:
    model = loop.build_model(ours.spec, (3, 32, 32), 100).cuda()
    with FlopCounterMode(display=False) as counter:
        cross_entropy(
            model(torch.zeros(64, 3, 32, 32, device="cuda")), torch.zeros(64, device="cuda").long()
        ).backward()
    return int(counter.get_total_flops())


def one_run(**fields: object) -> tuple[float, int]:
    """Seconds and steps of a run of two tasks, everything included: plans, probes, evaluation, events."""
    chosen = spec(method="tfcsr", protocol="paper", **fields)
    with settings(chosen), torch.cuda.stream(torch.cuda.Stream()):
        training = Training(chosen, random_cifar(None))
        turns = training.advance()
        while training.task_number < 2:  # the first task pays for the recording
            next(turns)
        started = training.optimizer_steps

        def two_tasks() -> None:
            while training.task_number < 4:
                next(turns)

        return seconds(two_tasks), training.optimizer_steps - started


def compile_steps(wanted: bool) -> None:
    """As a long run does; or not, as a short one. However many steps are measured here."""
    loop.COMPILE_FROM_STEPS = 0 if wanted else sys.maxsize


def packed(seed: int, **fields: object) -> dict[str, object]:
    """What one of several runs is."""
    return {"method": "tfcsr", "protocol": "paper", "seed": seed, **fields}


def several(count: int, *, compiled: bool = True, **fields: object) -> float:
    """Milliseconds per step of a run when so many go on at once, everything included. In the third task: the first two
    pay for compiling and recording, which comes once for each shape of batch.
    """
    compile_steps(compiled)
    specs = [spec(**packed(seed, **fields)) for seed in range(count)]
    trainings = [Training(one, random_cifar(None)) for one in specs]
    lanes = [(torch.cuda.Stream(), training.advance(), training) for training in trainings]
    torch.cuda.synchronize()

    def until(task: int) -> None:
        for stream, turns, training in itertools.cycle(lanes):
            if all(training.task_number >= task for _, _, training in lanes):
                break
            if training.task_number < task:
                with torch.cuda.stream(stream):
                    next(turns)
        torch.cuda.synchronize()

    with settings(specs[0]):
        until(3)
        started = sum(training.optimizer_steps for training in trainings)
        spent = seconds(lambda: until(4))
        return 1000 * spent / (sum(training.optimizer_steps for training in trainings) - started)


def steps_alone(options: Namespace) -> list[Row]:
    rows: list[Row] = []
    ours, strict = OurSteps(), OurSteps(deterministic=True)
    fp32 = OurSteps(precision="fp32")
    subjects = {
        "eager fp32": EagerLoop(ours, tf32=False).ms,
        "eager, torch's defaults (tf32 convolutions)": EagerLoop(ours, tf32=True).ms,
        "tfcsr fp32": fp32.ms,
        "tfcsr": ours.ms,
        "tfcsr --deterministic": strict.ms,
    }
    found = interleaved(subjects, options.repetitions)
    rows += [{"what": f"{name}: ms a step", **summary(values)} for name, values in found.items()]
    for name in ("eager fp32", "eager, torch's defaults (tf32 convolutions)", "tfcsr --deterministic"):
        rows.append({"what": f"{name} / tfcsr", **ratio(found[name], found["tfcsr"])})
    flops, rate = step_flops(ours), matrix_rate()
    reached = flops / (summary(found["tfcsr"])["median"] / 1000)
    rows.append(
        {
            "what": "TFLOP a step / matrix rate, TFLOP/s / share reached alone",
            "median": f"{flops / 1e12:.3f} / {rate / 1e12:.0f} / {reached / rate:.2f}",
        }
    )
    spent, steps = one_run(epochs=options.epochs)
    inside = steps * summary(found["tfcsr"])["median"] / 1000
    rows.append({"what": f"one run, ms a step, all included ({steps} steps)", "median": 1000 * spent / steps})
    rows.append({"what": "share of the run outside the step", "median": 1 - inside / spent})
    return rows


def packed_steps(options: Namespace) -> list[Row]:
    """Several runs at once, everything included."""
    return [
        {"what": f"{count} at once: ms per run-step, all included", "median": several(count, epochs=options.epochs)}
        for count in (1, 4, 8)
    ]


def packed_methods(options: Namespace, *, compiled: bool) -> list[Row]:
    """Ours beside er: as in long runs, or as in short ones."""
    rows: list[Row] = []
    recipe = {"protocol": "default", "epochs": options.epochs, **RECIPE}
    how = "compiled" if compiled else "not compiled"
    measured = functools.partial(several, 4, compiled=compiled, **recipe)
    found = interleaved({name: functools.partial(measured, method=name) for name in METHODS}, PACKED)
    for name, values in found.items():
        rows.append({"what": f"{name}, 4 at once, {how}: ms per run-step", **summary(values)})
    er, ours = (found[name] for name in METHODS)
    rows.append({"what": f"{METHODS[1]} / {METHODS[0]}, 4 at once, {how}", **ratio(ours, er)})
    return rows


def first_step(method: str, cache: str) -> float:
    """Seconds from the start of a process to the end of its first step. The compiler keeps its programs in `cache`."""
    command = [sys.executable, "-m", "benchmarks.gpu", "first-step", method]
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        if child.stdout.readline() != "done\n":
            refuse(f"the process that was to take a first step of {method} ended with {child.wait()}")
        return time.perf_counter() - started


def first_steps(options: Namespace) -> list[Row]:
    rows: list[Row] = []
    for method in METHODS:
        with tempfile.TemporaryDirectory() as place:
            rows.append({"what": f"{method}: first step, s, nothing kept", **summary([first_step(method, place)])})
            kept = [first_step(method, place) for _ in range(PACKED)]
            rows.append({"what": f"{method}: first step, s, programs kept", **summary(kept)})
    return rows


PARTS: Mapping[str, Callable[[Namespace], list[Row]]] = {
    "steps": steps_alone,
    "packed": packed_steps,
    "methods": functools.partial(packed_methods, compiled=True),
    "methods-short": functools.partial(packed_methods, compiled=False),
    "first": first_steps,
}


def main() -> None:
    if sys.argv[1:2] == ["first-step"]:
        compile_steps(True)
        OurSteps(method=sys.argv[2], steps=2, **RECIPE)  # a shape that comes once is not compiled
        print("done", flush=True)
        return
    options = arguments(__doc__, repetitions=7, epochs=20, parts=tuple(PARTS))
    if not torch.cuda.is_available():
        refuse("torch finds no GPU on this machine")
    rows: list[Row] = []
    for part, measure in PARTS.items():
        if options.only in (None, part):
            rows += measure(options)
            show("Split CIFAR-100, ResNet-18, batches of 64", rows, options.json)


if __name__ == "__main__":
    main()
