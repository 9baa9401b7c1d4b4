"""Results folders to look at: small real ones, and made-up ones of any size."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.figure import Figure

import tfcsr
from tests.conftest import make_spec
from tfcsr.experiments.reading import Run
from tfcsr.experiments.result import Result
from tfcsr.reporting.figures import STYLE, figure
from tfcsr.reporting.series import grouped

HOSTILE = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>\'&amp; $x^2$ %{y} \u2028 -->'


@pytest.fixture(scope="session")
def grid(tmp_path_factory) -> Path:
    """Four methods, two seeds, and one of them with another buffer."""
    out = tmp_path_factory.mktemp("results") / "grid"
    tfcsr.compare(benchmark="tiny", methods=["er", "tfcsr", "finetune", "joint"], seeds=2, epochs=3, out=out, workers=1)
    for seed in (0, 1):
        spec = make_spec(method="er", seed=seed, epochs=3, buffer_capacity=12)
        tfcsr.run(spec.replace(out=str(out / spec.name())))
    return out


@pytest.fixture
def copy(grid, tmp_path) -> Path:
    """The same, to be spoiled."""
    return Path(shutil.copytree(grid, tmp_path / "copy"))


def one_run(folder: Path, method: str = "tfcsr", seed: int = 0) -> Path:
    return next(folder.glob(f"{method}-seed{seed}-*"))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="session")
def made_up(tmp_path_factory) -> Iterator[Callable[..., Path]]:
    """Folders of runs that never were, with the shape of real ones: `made_up(runs, tasks, classes)`."""
    base = tmp_path_factory.mktemp("made_up")

    def make(runs: int, tasks: int = 10, classes: int = 100, probes: int = 5, **fields: Any) -> Path:
        rng = random.Random(0)
        folder = base / f"{runs}-{tasks}-{classes}-{len(fields)}"
        if folder.exists():
            return folder
        per_task = [list(range(classes))[i::tasks] for i in range(tasks)]
        for i in range(runs):
            method = ("er", "tfcsr", "tfcsr-spaced", "finetune", "mgp")[i % 5]
            capacity = (200, 500, 1000)[i // 5 % 3]
            spec = make_spec(
                benchmark="split-cifar100", method=method, seed=i // 15, buffer_capacity=capacity, **fields
            )
            values = spec.to_dict() | {"tasks": tasks, "device": "cuda", "precision": "bf16"}
            write_run(folder / f"run{i}", values, per_task, probes if "tf" in method else 0, rng)
        return folder

    yield make
    shutil.rmtree(base)


def write_run(folder: Path, spec: dict[str, Any], per_task: list[list[int]], probes: int, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    tasks, classes, epochs = len(per_task), sum(map(len, per_task)), 50
    matrix = [[100 * rng.random() if j <= i else 0.0 for j in range(tasks)] for i in range(tasks)]
    found = []
    events: list[dict[str, Any]] = [{"event": "run_started", "time": 0.0, "spec": spec, "tasks": per_task}]
    for task in range(1, tasks + 1):
        for k in range(probes):
            recall = 100 * rng.random()
            probe = {"task": task, "epoch": 8 * k + 1, "recall": recall, "passed": recall > 50, "next_epoch": 8 * k + 9}
            seen = [label for part in per_task[:task] for label in part]
            events.append({"event": "probe", "time": 1.0, **probe, "per_class": {c: 100 * rng.random() for c in seen}})
            found.append(probe)
    after = [sum(row[: i + 1]) / (i + 1) for i, row in enumerate(matrix)]
    result = {
        "final_accuracy": after[-1],
        "accuracy_after_task": after,
        "accuracy_matrix": matrix,
        "class_accuracy": [[100 * rng.random() for _ in range(classes)] for _ in range(tasks)],
        "held_out_accuracy": None,
        "untrained_accuracy": [1.0] * tasks,
        "forgetting": 10 * rng.random(),
        "backward_transfer": 0.0,
        "forward_transfer": 0.0,
        "replay_batches": rng.randrange(10000),
        "memory_checks": len(found),
        "probes": found,
        "epochs_per_task": [epochs] * tasks,
        "optimizer_steps": 1000,
        "samples_seen": 64000,
        "seconds": 100 * rng.random(),
        "buffer_bytes": 3080 * spec.get("buffer_capacity", 0),
        "collapsed": None,
        "weights_sha256": str(rng.random()),
        "classes_per_task": per_task,
        "test_sizes": [1000] * tasks,
        "spec": spec,
        "environment": {},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def run_of(result: Result) -> Run:
    """A result at hand, as if it had been read; its events are not."""
    run = Run(Path(os.devnull))
    run.result, run.spec, run.state, run.words = result, result.spec, "complete", "complete"
    return run


def overview(results: Sequence[Result]) -> Figure:
    """The overview of results at hand."""
    with matplotlib.rc_context(STYLE):
        return figure("overview", grouped([run_of(result) for result in results])[0])
