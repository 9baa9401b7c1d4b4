"""One network on two processes, beside one process with one thread and with two. `python -m benchmarks.processes`

Images are random, in MNIST's shape. Measured is what a run says it took, training and evaluation: starting Python and
torch, some seconds for each process, is left out.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import tfcsr
from benchmarks.measure import Row, arguments, interleaved, ratio, show, summary

# Model, examples in a batch, steps.
SUBJECTS = (("mlp", 64, 100), ("cnn", 64, 100), ("cnn", 256, 40), ("resnet18", 64, 4))
CLASSES = 10


def run(model: str, batch: int, steps: int, processes: int, threads: int) -> float:
    """The milliseconds of a step of `er`, of which half a batch is new."""
    start = [sys.executable, "-m"]
    if processes > 1:
        start += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    fields = {
        "benchmark": "random-mnist",
        "method": "er",
        "model": model,
        "batch-size": batch,
        "epochs": 1,
        "tasks": 2,
        "buffer-capacity": 500,
        "max-per-class": max(1, steps * (batch // 2) // CLASSES),
        "device": "cpu",
        "threads": threads,
        "checkpoint-seconds": 1e6,
    }
    flags = [word for name, value in fields.items() for word in (f"--{name}", str(value))]
    source, here = Path(tfcsr.__file__).parents[1], Path(__file__).parents[1]
    env = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{here}", "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        words = [*start, "tfcsr", "run", *flags, "--plugin", "benchmarks.cpu", "--out", f"{folder}/run"]
        ended = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(ended.stderr)
        result = json.loads(Path(folder, "run", "result.json").read_bytes())
    return float(1000 * result["seconds"] / result["optimizer_steps"])


def measured(model: str, batch: int, steps: int, repetitions: int) -> list[Row]:
    def take(processes: int, threads: int) -> Callable[[], float]:
        return lambda: run(model, batch, steps, processes, threads)

    subjects = {
        "1 process, 1 thread": take(1, 1),
        "1 process, 2 threads": take(1, 2),
        "2 processes, 1 thread each": take(2, 1),
    }
    found = interleaved(subjects, repetitions)
    what = f"{model}, batches of {batch}"
    rows: list[Row] = [{"what": f"{what}, {name}: ms a step", **summary(values)} for name, values in found.items()]
    single, threaded, both = found.values()
    for name, values in (("1 thread", single), ("2 threads", threaded)):
        rows.append({"what": f"{what}: 1 process with {name} / 2 processes", **ratio(values, both)})
    return rows


def main() -> None:
    options = arguments(__doc__, repetitions=3)
    rows = [row for model, batch, steps in SUBJECTS for row in measured(model, batch, steps, options.repetitions)]
    show("One network on two processes of a CPU", rows, options.json)


if __name__ == "__main__":
    main()
