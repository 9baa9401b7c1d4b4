"""How runs share one GPU: in one process, in several, and in several under MPS.

    python -m benchmarks.packing
    python -m benchmarks.packing --runs 6 --seconds 20 --repetitions 3

Measured over a span of time in which all processes train, each in its second task or a later one, everything included.
MPS (nvidia-cuda-mps-control) is started for its turn, where it is installed, and stopped after it.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch

from benchmarks.gpu import METHODS, RECIPE, compile_steps, random_cifar, spec
from benchmarks.measure import Row, arguments, interleaved, ratio, refuse, show, summary
from benchmarks.training import Training
from tfcsr.experiments.machine import settings

# Processes, and whether under MPS; with the runs' epochs, few, so that their second task comes soon.
WAYS = ((1, False), (3, False), (3, True))
EPOCHS = 4


def main() -> None:
    if sys.argv[1:2] == ["share"]:
        share(**json.loads(sys.argv[2]))
        return
    options = arguments(__doc__, {"runs": 3}, runs=6, seconds=10, repetitions=1)
    if not torch.cuda.is_available():
        refuse("torch finds no GPU on this machine")
    rows: list[Row] = []
    title = "Split CIFAR-100, ResNet-18, batches of 64"
    ways = [way for way in WAYS if not way[1] or shutil.which("nvidia-cuda-mps-control")]
    for method in METHODS:
        found = interleaved(
            {_name(way): functools.partial(_shared, method, *way, options) for way in ways},
            options.repetitions,
        )
        for name, values in found.items():
            rows.append({"what": f"{method}, {options.runs} runs, {name}: ms per run-step", **summary(values)})
        one = found[_name(ways[0])]
        for name, values in found.items():
            rows.append({"what": f"{method}, {name} / one process", **ratio(values, one)})
        show(title, rows, options.json)


def _name(way: tuple[int, bool]) -> str:
    processes, mps = way
    return f"{processes} {'process' if processes == 1 else 'processes'}{', MPS' if mps else ''}"


def _child(env: dict[str, str], **fields: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.packing", "share", json.dumps(fields)]
    return subprocess.Popen(command, env=os.environ | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _answer(child: subprocess.Popen[str]) -> Any:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        refuse(f"a process that was to be measured ended with {child.wait()}")
    return json.loads(line)


def _shared(method: str, processes: int, mps: bool, options: Any) -> float:
    """Milliseconds per step of a run, over all processes."""
    env: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        if mps:
            env = {"CUDA_MPS_PIPE_DIRECTORY": f"{place}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{place}/log"}
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=os.environ | env, check=True)
        try:
            shares = [options.runs // processes + (i < options.runs % processes) for i in range(processes)]
            children = [_child(env, method=method, runs=n, span=options.seconds) for n in shares]
            for child in children:
                _answer(child)  # past its first task
            for child in children:
                assert child.stdin is not None
                child.stdin.write("go\n")
                child.stdin.flush()
            rates = [steps / spent for steps, spent in map(_answer, children)]
            for child in children:
                child.communicate()
            return float(1000 / sum(rates))
        finally:
            if mps:
                subprocess.run(["nvidia-cuda-mps-control"], env=os.environ | env, input="quit\n", text=True, check=True)


def share(method: str, runs: int, span: float) -> None:
    """Some runs in this process, as a grid runs them, for so many seconds; all of them in their second task or a later
    one, where there is something to replay and to distil.
    """
    compile_steps(True)
    specs = [spec(method=method, seed=seed, epochs=EPOCHS, **RECIPE) for seed in range(runs)]
    trainings = [Training(one, random_cifar(None)) for one in specs]
    lanes = [(torch.cuda.Stream(), training.advance(), training) for training in trainings]

    def turn() -> None:
        for stream, turns, _ in lanes:
            with torch.cuda.stream(stream):
                next(turns)

    with settings(specs[0]):
        # Until the steps of the second task are compiled and recorded.
        while any(training.task_number < 2 for training in trainings):
            turn()
        for _ in range(5):
            turn()
        torch.cuda.synchronize()
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        before, started = sum(training.optimizer_steps for training in trainings), time.perf_counter()
        while time.perf_counter() - started < span and all(training.task_number < 10 for training in trainings):
            turn()
        torch.cuda.synchronize()
        taken = sum(training.optimizer_steps for training in trainings) - before
        print(json.dumps((taken, time.perf_counter() - started)), flush=True)


if __name__ == "__main__":
    main()
