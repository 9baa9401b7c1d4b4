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
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, arguments, refuse, show

TRAIN, TEST = 20, 5  # of each class
MOST_EVALUATED = 1000  # tasks, each of them
ROOT = str(Path(__file__).parent.parent.resolve())
MODEL = ("--model", "mlp", "--hidden", "64", "--method", "er", "--threads", "1", "--device", "cpu")


def main() -> None:
    most = {"classes": 10_000, "tasks": 1000, "instalments": 100}
    most |= {"examples": 1_000_000, "memory": 1_000_000, "runs": 10_000}
    asked = arguments(__doc__, dict.fromkeys(most, 0), (), **most)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for classes in _up_to(asked.classes, 100):
            _write(classes, TRAIN)
            rows.append({"what": f"{classes:,} classes in 10 tasks"} | _run("--tasks", "10", "--epochs", "1"))
        for tasks in _up_to(asked.tasks, 10):
            _write(max(1000, tasks), TRAIN)
            more = ("--tasks", str(tasks), "--epochs", "1")
            what = f"{tasks:,} tasks of {max(1000, tasks):,} classes"
            if tasks <= MOST_EVALUATED:
                rows.append({"what": f"{what}, evaluated after each"} | _run(*more))
            if tasks > 10:
                every = ("--evaluate-every", str(tasks // 10))
                rows.append({"what": f"{what}, evaluated 10 times"} | _run(*more, *every))
        for instalments in _up_to(asked.instalments, 10):
            rows.append({"what": f"{instalments:,} instalments of two new classes"} | _saves(instalments))
        for examples in _up_to(asked.examples, 10_000):
            _write(10, examples // 10)
            rows.append({"what": f"{examples:,} examples in 2 tasks, 100 steps each"} | _run(*_few_steps(1000)))
        for memory in _up_to(asked.memory, 10_000):
            _write(10, 2 * memory // 10)
            for where in ("ram", "disk"):
                cost = _run(*_few_steps(memory), "--buffer-on", where) | {"rows MB": _megabytes("out/buffer/*.rows")}
                rows.append({"what": f"a memory of {memory:,} ({where}), 100 steps a task"} | cost)
            rows.append({"what": f"the same of 3x8x8, alone: {memory:,} on disk"} | _alone(memory))
        for runs in _up_to(asked.runs, 1000):
            _folders(runs)
            cost = _process("report", "many")
            rows.append({"what": f"report of {runs:,} runs"} | cost | {"page MB": _megabytes("many/report.html")})
    show("scale", rows, asked.json)


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
    cost = _process("run", "--benchmark", "npz:data.npz", *MODEL, *more, "--out", "out")
    result = json.loads(Path("out/result.json").read_text(encoding="utf-8"))
    sizes = {"model": "model.safetensors", "result": "result.json", "events": "events.jsonl"}
    return cost | {"steps": result["optimizer_steps"]} | {f"{k} MB": _megabytes(f"out/{v}") for k, v in sizes.items()}


def _saves(instalments: int) -> Row:
    shutil.rmtree("kept", ignore_errors=True)
    cost = _process(str(instalments), module="benchmarks.scale_instalments")
    found: Row = json.loads(Path("kept.json").read_text(encoding="utf-8"))
    return cost | found | {"history MB": _megabytes("kept/history/1.jsonl")}


def _alone(memory: int) -> Row:
    """A buffer on disk by itself: to fill it twice over, draw batches, save it, save it unchanged, and load it."""
    import torch

    from tfcsr.buffer.buffer import Buffer
    from tfcsr.training.checkpoint import Checkpoints

    shutil.rmtree("alone", ignore_errors=True)
    Path("alone").mkdir()
    torch.set_num_threads(1)
    before, draw = _resident(), torch.Generator().manual_seed(0)
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
    return seconds | sizes | {"memory MB": _resident() - before}


def _resident() -> int:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000


def _process(*command: str, module: str = "tfcsr") -> Row:
    """Processor seconds and the most memory that this command of tfcsr takes."""
    place = {"PYTHONPATH": os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])}
    child = subprocess.Popen(
        [sys.executable, "-m", module, *command], stdout=subprocess.DEVNULL, env=os.environ | place
    )
    _, status, used = os.wait4(child.pid, 0)
    if status:
        refuse(f"{module} {' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return {"processor s": round(used.ru_utime + used.ru_stime, 2), "memory MB": round(used.ru_maxrss / 1000)}


def _megabytes(pattern: str) -> float:
    return round(sum(path.stat().st_size for path in Path().glob(pattern)) / 1e6, 3)


def _folders(runs: int) -> None:
    """A results folder of so many runs: copies of one, with seeds and accuracies of their own."""
    shutil.rmtree("many", ignore_errors=True)
    if not Path("one").exists():
        _write(10, TRAIN)
        _process("run", "--benchmark", "npz:data.npz", *MODEL, "--tasks", "5", "--epochs", "1", "--out", "one")
    files = {p.name: p.read_text(encoding="utf-8") for p in Path("one").iterdir() if p.suffix in (".json", ".jsonl")}
    result, spec = (json.loads(files[name]) for name in ("result.json", "spec.json"))
    for seed in range(runs):
        folder = Path("many") / f"er-seed{seed}"
        folder.mkdir(parents=True)
        result["spec"]["seed"], result["final_accuracy"] = seed, seed * 7919 % 1000 / 10
        changed = {"result.json": json.dumps(result), "spec.json": json.dumps(spec | {"seed": seed})}
        for name, text in (files | changed).items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
