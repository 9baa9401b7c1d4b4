"""What ten, a hundred, a thousand times as many cost, in time and bytes: classes, tasks, instalments, examples, memory,
runs.

    python -m benchmarks.scale                  # up to 1,000 tasks, 10,000 classes, a million examples, 10,000 runs
    python -m benchmarks.scale --tasks 10000    # further; each of them has such a flag, and 0 leaves it out

With more than 1,000 tasks only every tenth of them all is evaluated: after each it would be gigabytes.

Every measurement is a process of its own with one thread, on made-up images of 4x4 pixels and a network of one hidden
layer of 64: what is left is what the package itself costs. Processor time is that of the whole process, of which some
two seconds are its start.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, arguments, refuse, show

TRAIN, TEST = 20, 5  # of each class
MOST_EVALUATED = 1000  # tasks, each of them
ROOT = str(Path(__file__).parent.parent.resolve())
TFCSR = ("-m", "tfcsr")
SETTINGS = ("--benchmark", "npz:data.npz", "--model", "mlp", "--hidden", "64", "--threads", "1", "--device", "cpu")
# A grid of so many seeds; the command line takes no more than 10,000.
COMPARE = """
import sys, tfcsr
settings = {"model": "mlp", "hidden": 64, "threads": 1, "device": "cpu", "tasks": 5, "epochs": 1}
tfcsr.compare(benchmark="npz:data.npz", methods=["er"], seeds=range(int(sys.argv[1])), out=sys.argv[2], **settings)
"""


# A small process between this one and the one that is measured: Linux counts the memory of the parent as the child's.
MEASURED = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
told = child.stdout.read().splitlines()
_, status, used = os.wait4(child.pid, 0)
row = {"processor s": round(used.ru_utime + used.ru_stime, 2), "memory MB": round(used.ru_maxrss / 1000)}
print(json.dumps(row | (json.loads(told[-1]) if told and told[-1].startswith("{") else {})))
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def main() -> None:
    most = {"classes": 10_000, "tasks": 1000, "instalments": 100}
    most |= {"examples": 1_000_000, "memory": 1_000_000, "runs": 10_000}
    asked = arguments(__doc__, dict.fromkeys(most, 0), (), **most)
    # What is measured is shown, however it ends.
    rows: list[Row] = []
    home = Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            rows.extend(_measured(asked))
    finally:
        os.chdir(home)
        show("What more of it costs", rows, asked.json)


def _measured(asked: Namespace) -> Iterator[Row]:
    for classes in _up_to(asked.classes, 100):
        _write(classes, TRAIN)
        more = ("--tasks", "10", "--epochs", "1")
        yield {"what": f"{classes:,} classes in 10 tasks"} | _run(*more)
        ten = ("--buffer-capacity", str(10 * classes))
        yield {"what": "the same, a memory of ten of each"} | _run(*more, *ten)
        yield {"what": "the same, one of the ten an exam"} | _run(*more, *ten, "--exam-share", "0.1")
    for tasks in _up_to(asked.tasks, 10):
        _write(max(1000, tasks), TRAIN)
        more = ("--tasks", str(tasks), "--epochs", "1")
        what = f"{tasks:,} tasks of {max(1000, tasks):,} classes"
        if tasks <= MOST_EVALUATED:
            yield {"what": f"{what}, evaluated after each"} | _run(*more)
        if tasks > 10:
            every = ("--evaluate-every", str(tasks // 10))
            yield {"what": f"{what}, evaluated 10 times"} | _run(*more, *every)
    for instalments in _up_to(asked.instalments, 10):
        yield {"what": f"{instalments:,} instalments of two new classes"} | _saves(instalments)
    for examples in _up_to(asked.examples, 10_000):
        _write(10, examples // 10)
        yield {"what": f"{examples:,} examples in 2 tasks, 100 steps each"} | _run(*_few_steps(1000))
    for memory in _up_to(asked.memory, 10_000):
        _write(10, 2 * memory // 10)
        for where in ("ram", "disk"):
            cost = _run(*_few_steps(memory), "--buffer-on", where) | {"rows MB": _megabytes("out/buffer/*.rows")}
            yield {"what": f"a memory of {memory:,} ({where}), 100 steps a task"} | cost
    for memory in _up_to(asked.memory, 10_000):
        yield {"what": f"a memory of {memory:,} of 3x8x8 on disk, alone"} | _process(
            "-c", f"from benchmarks import scale; scale.alone({memory})"
        )
    for runs in _up_to(asked.runs, 1000):
        _folders(runs)
        cost = _process(*TFCSR, "report", "many")
        yield {"what": f"report of {runs:,} runs"} | cost | {"page MB": _megabytes("many/report.html")}
        cost = _process("-c", COMPARE, str(runs), "many")
        yield {"what": f"compare of {runs:,} runs, all complete"} | cost


def _up_to(most: int, first: int) -> Iterator[int]:
    while first <= most:
        yield first
        first *= 10


def _few_steps(memory: int) -> tuple[str, ...]:
    return "--tasks", "2", "--steps", "100", "--buffer-capacity", str(memory)


def _write(classes: int, each: int) -> None:
    draw = np.random.default_rng(0)
    centres = draw.integers(0, 256, (classes, 1, 4, 4), dtype=np.uint8)
    parts: dict[str, np.ndarray] = {}
    for part, count in (("train", each), ("test", TEST)):
        y = np.repeat(np.arange(classes), count)
        noise = draw.integers(0, 32, (len(y), 1, 4, 4), dtype=np.uint8)
        parts |= {f"x_{part}": centres[y] // 2 + noise, f"y_{part}": y}
    np.savez("data.npz", **parts)  # type: ignore[arg-type]


def _run(*more: str) -> Row:
    shutil.rmtree("out", ignore_errors=True)
    cost = _process(*TFCSR, "run", *SETTINGS, "--method", "er", *more, "--out", "out")
    result = json.loads(Path("out/result.json").read_text(encoding="utf-8"))
    sizes = {"kept": "model.safetensors", "result": "result.json", "events": "events.jsonl"}
    return cost | {"steps": result["optimizer_steps"]} | {f"{k} MB": _megabytes(f"out/{v}") for k, v in sizes.items()}


def _saves(instalments: int) -> Row:
    shutil.rmtree("kept", ignore_errors=True)
    cost = _process("-m", "benchmarks.scale_instalments", str(instalments))
    found: Row = json.loads(Path("kept.json").read_text(encoding="utf-8"))
    return cost | found | {"history MB": _megabytes("kept/history/1.jsonl")}


def alone(memory: int) -> None:
    """A buffer on disk by itself: to fill it twice over, draw batches, save it, save it unchanged, and load it."""
    import torch

    from tfcsr.buffer.buffer import Buffer
    from tfcsr.training.checkpoint import Checkpoints

    shutil.rmtree("alone", ignore_errors=True)
    Path("alone").mkdir()
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    buffer = Buffer(memory, (3, 8, 8), on_disk=True, folder=Path("alone/buffer"))
    seconds: dict[str, float] = {}

    def timed(what: str, times: int, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        for _ in range(times):
            work()
        seconds[what] = round((time.perf_counter() - start) / times, 6)

    part = max(1, memory // 10)
    x = torch.randint(0, 256, (part, 3, 8, 8), dtype=torch.uint8, generator=draw)
    y = torch.randint(0, 1000, (part,), generator=draw)
    timed("a tenth arrives, s", 20, lambda: buffer.add(x, y, draw))
    timed("a batch of 32, s", 1000, lambda: buffer.examples(buffer.draw(1, 32, draw)[0]))
    timed("classes, s", 100, buffer.classes)
    checkpoints = Checkpoints(Path("alone/checkpoint"), "key")
    for number, what in enumerate(("a checkpoint, s", "unchanged, s"), start=1):
        timed(what, 1, lambda number=number: checkpoints.save(number, {"buffer": buffer.state_dict()}, 0))  # type: ignore[misc]
    again = Buffer(memory, (3, 8, 8), on_disk=True)

    def load() -> None:
        found = Checkpoints(Path("alone/checkpoint"), "key").load()
        assert found is not None
        again.load_state_dict(found.state["buffer"])

    timed("resume, s", 1, load)
    assert torch.equal(again.examples(torch.arange(32)), buffer.examples(torch.arange(32)))
    sizes = {"rows MB": _megabytes("alone/buffer/*"), "checkpoint MB": _megabytes("alone/checkpoint/*.version")}
    print(json.dumps(seconds | sizes))


def _process(*command: str) -> Row:
    """Processor seconds and the most memory that Python takes for this; and what it prints, where that is a row."""
    place = {"PYTHONPATH": os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURED, sys.executable, *command],
        capture_output=True,
        text=True,
        env=os.environ | place,
        check=False,
    )
    if done.returncode:
        refuse(f"python {' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def _megabytes(pattern: str) -> float:
    return round(sum(path.stat().st_size for path in Path().glob(pattern)) / 1e6, 3)


def _folders(runs: int) -> None:
    """A results folder of so many runs: copies of one, with seeds and accuracies of their own."""
    from tfcsr.spec import ORIGIN, RunSpec

    shutil.rmtree("many", ignore_errors=True)
    if not Path("one").exists():
        _write(10, TRAIN)
        _process("-c", COMPARE, "1", "one")
    one = next(Path("one").glob("*/result.json")).parent
    result, spec = (json.loads((one / name).read_text(encoding="utf-8")) for name in ("result.json", "spec.json"))
    events, origin = (one / "events.jsonl").read_text(encoding="utf-8"), spec.pop(ORIGIN)
    first = RunSpec.read(spec)
    for seed in range(runs):
        folder = Path("many") / first.replace(seed=seed).name()
        folder.mkdir(parents=True)
        spec |= {"seed": seed, "out": str(folder)}
        result |= {"spec": spec, "final_accuracy": seed * 7919 % 1000 / 10}
        files = {"result.json": json.dumps(result), "spec.json": json.dumps(spec | {ORIGIN: origin})}
        for name, text in (files | {"events.jsonl": events}).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
