"""Many runs, many folders, many tasks:

python -m tests.nightly.load --runs 2000 --folders 10000 --tasks 1000
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tfcsr
from tests.conftest import make_spec, striped_dataset
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.engines import pool
from tfcsr.engines.pool import Update
from tfcsr.experiments.reading import Results
from tfcsr.experiments.result import Result
from tfcsr.reporting.report import ROOM
from tfcsr.reporting.view import document
from tfcsr.spec import RunSpec

METHODS = ("er", "tfcsr", "ewc", "finetune")


def usage(process: int) -> tuple[int, int]:
    """MiB of memory that are the process's own, and its open files."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20, len(list(Path(f"/proc/{process}/fd").iterdir()))


def grid(runs: int, folder: Path) -> str:
    """A comparison of so many runs in worker processes; what each process uses after its first runs and after its last.
    Its own: one worker may have done a quarter of all while the other still loads what its first one needs.
    """
    first = max(runs // 20, 8)
    used: dict[int, list[tuple[int, int]]] = {os.getpid(): []}
    worker_class = pool.Worker

    class Watched(worker_class):  # type: ignore[misc, valid-type]
        def listen(self, heard: Callable[[str, Any, int | None], None]) -> int:
            of_worker = used.setdefault(self.process.pid, [])

            def watched(kind: str, value: Any, run: int | None) -> None:
                if kind == "result":
                    of_worker.append(usage(self.process.pid))
                heard(kind, value, run)

            return int(super().listen(watched))

    def watcher(spec: RunSpec, update: Update) -> None:
        if isinstance(update, Result):
            used[os.getpid()].append(usage(os.getpid()))

    small = {"max_per_class": 2, "tasks": 2, "epochs": 1, "batch_size": 8, "device": "cpu"}
    seeds = runs // len(METHODS)
    pool.Worker = Watched  # type: ignore[misc]
    try:
        comparison = tfcsr.compare(methods=METHODS, seeds=seeds, workers=2, out=folder, watcher=watcher, **small)
    finally:
        pool.Worker = worker_class  # type: ignore[misc]
    assert len(comparison.results) == runs
    assert len(used) <= 3, "a worker was replaced"
    told = []
    for seen in filter(None, used.values()):
        (memory, files), (memory_later, files_later) = seen[:first][-1], seen[-1]
        # The C library keeps some 30 KiB of what a run frees; trimmed, a process has grown by nothing in 1,600 runs.
        assert memory_later < memory + 15 + len(seen) / 16, f"memory grew from {memory} to {memory_later} MiB"
        # A run has up to four open itself, and is in its middle at one time and at its end at another.
        assert files_later <= files + 4, f"open files grew from {files} to {files_later}"
        told.append(f"{memory} to {memory_later} MiB, {files} to {files_later} files, {len(seen)} runs")
    check_table(comparison, folder)
    return f"{runs} runs; each process from its run {first} to its last: {'; '.join(told)}"


def check_table(comparison: tfcsr.Comparison, folder: Path) -> None:
    """The means and paired intervals once more, by another way, from the files."""
    from scipy.stats import t

    found: dict[str, dict[int, float]] = {}
    for file in folder.glob("*/result.json"):
        result = json.loads(file.read_text())
        found.setdefault(result["spec"]["method"], {})[result["spec"]["seed"]] = result["final_accuracy"]
    for row in comparison.methods:
        values = found[row.method]
        assert row.n == len(values)
        assert math.isclose(row.final_accuracy.mean, statistics.fmean(values.values()))
        if row.difference is not None:
            pairs = [values[seed] - found[comparison.baseline][seed] for seed in values]
            half = float(t.ppf(0.975, len(pairs) - 1)) * statistics.stdev(pairs) / math.sqrt(len(pairs))
            assert math.isclose(row.difference.mean, statistics.fmean(pairs), abs_tol=1e-9)
            assert math.isclose(row.difference.half_width or 0.0, half, abs_tol=1e-9)


def listing(folders: int, folder: Path) -> str:
    """A folder of so many runs, all but a hundredth complete, through the command line, in seconds."""
    result = tfcsr.run(make_spec(method="tfcsr", epochs=4)).to_dict()
    text = json.dumps(result, indent=1)
    for i in range(folders):
        run = folder / f"tfcsr-seed{i}-{i:010x}"
        run.mkdir()
        (run / "spec.json").write_text("{}")
        if i % 100:
            (run / "result.json").write_text(text)
    command = [sys.executable, "-m", "tfcsr", "list", "runs", str(folder)]
    started = time.monotonic()
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    seconds = time.monotonic() - started
    assert len(shown) == folders
    assert sum(line.endswith(" %") for line in shown) == sum(bool(i % 100) for i in range(folders))
    assert seconds < 2, f"{folders} folders took {seconds:.2f} s"
    return f"{folders} folders of runs, {len(text)} bytes each, listed in {seconds:.2f} s"


def looking(folders: int, folder: Path) -> str:
    """The page of so many runs, each with a seed and a history of its own; and how long it takes to see nothing new."""
    sound = tfcsr.run(make_spec(method="tfcsr", epochs=4, out=str(folder / "first"))).to_dict()
    told = (folder / "first" / "events.jsonl").read_bytes()
    for i in range(1, folders):
        run = folder / f"run{i}"
        run.mkdir()
        spec = sound["spec"] | {"seed": i // 4, "method": ("er", "tfcsr", "si", "mgp")[i % 4]}
        (run / "spec.json").write_text(json.dumps(spec))
        (run / "events.jsonl").write_bytes(told)
        if i % 100:
            (run / "result.json").write_text(json.dumps(sound | {"spec": spec}))
    started = time.monotonic()
    results = Results(folder)
    results.look()
    first = time.monotonic() - started
    text = document(results, live=True, room=ROOM)
    made = time.monotonic() - started - first
    started = time.monotonic()
    assert not results.look()
    again = time.monotonic() - started
    assert len(text) <= ROOM
    assert sum(json.loads(text)["counts"].values()) == folders
    assert again < 1 + folders / 10_000, f"a second look took {again:.2f} s"
    return f"{folders} runs read in {first:.1f} s, their page made in {made:.1f} s, a second look {again:.2f} s"


@contextmanager
def many_classes(classes: int) -> Iterator[str]:
    data = striped_dataset(classes, train=2, test=1)
    entry = Benchmark(load=lambda data_dir: data, classes=classes, tasks=classes, defaults={"model": "tiny-linear"})
    BENCHMARKS.add("many")(entry)
    yield "many"
    del BENCHMARKS._added["many"]


def long_sequence(tasks: int, folder: Path) -> str:
    """As many tasks as classes, each saved after its epoch, stopped halfway and resumed."""
    started = time.monotonic()

    class Halfway(Exception):
        pass

    def halfway(event: dict[str, Any]) -> None:
        if event["event"] == "task_finished" and event["task"] == tasks // 2:
            raise Halfway

    with many_classes(tasks) as benchmark:
        spec = make_spec(benchmark=benchmark, method="er", epochs=1, checkpoint_every=1, out=str(folder / "run"))
        try:
            tfcsr.run(spec, [halfway])
        except Halfway:
            result = tfcsr.run(spec)
    assert len(result.accuracy_matrix) == len(result.accuracy_matrix[-1]) == tasks
    assert (folder / "run" / "events.jsonl").read_text().count('"task_finished"') == tasks
    size = (folder / "run" / "result.json").stat().st_size >> 20
    return f"{tasks} tasks in {time.monotonic() - started:.0f} s, its result {size} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=1000)
    options = parser.parse_args()
    for what, number in (
        (listing, options.folders),
        (looking, options.folders),
        (long_sequence, options.tasks),
        (grid, options.runs),
    ):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            said = what(number, Path(folder))
        print(f"{said} ({time.monotonic() - started:.0f} s in all)", flush=True)


if __name__ == "__main__":
    main()
