"""This version beside another, the same steps in turns. `python -m benchmarks.against OTHER/src [--device cuda]`

Each source tree has a process of its own, which is asked for one measurement after the other's.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Row, arguments, interleaved, ratio, refuse, seconds, show, summary

ROOT = Path(__file__).parents[1]
SUBJECTS = ("er", "ewc", "si", "tfcsr")


def serve() -> None:
    """The measuring side: milliseconds a step of the method that is asked for."""
    device = sys.argv[2]
    made: dict[str, object] = {}
    for line in sys.stdin:
        method = line.strip()
        if method not in made:
            made[method] = _cuda(method) if device == "cuda" else _cpu(method)
        print(made[method](), flush=True)  # type: ignore[operator]


def _cpu(method: str) -> object:
    import torch

    from benchmarks import cpu
    from benchmarks.training import Training
    from tfcsr.experiments.machine import cores, keep_freed_memory, on_this_machine
    from tfcsr.spec import RunSpec

    keep_freed_memory()
    torch.set_num_threads(cores())
    spec = on_this_machine(RunSpec(benchmark="random-mnist", method=method, device="cpu", threads=cores()))
    training = Training(spec, cpu.random_mnist(None))
    task = training.tasks.task(1)
    training.method.begin_task(task)
    training.steps.begin_task(task.train)
    training.model.train()

    def take() -> None:
        for _ in training._train_epoch(task, len(task.train)):
            pass

    take()

    def measure() -> float:
        before = training.optimizer_steps
        spent = seconds(take)
        return 1000 * spent / (training.optimizer_steps - before)

    return measure


def _cuda(method: str) -> object:
    from benchmarks import gpu

    return gpu.OurSteps(method=method).ms


class Version:
    def __init__(self, source: Path, device: str) -> None:
        path = os.pathsep.join([str(source), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against", "--serve", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
            cwd=ROOT,
        )

    def measure(self, method: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{method}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            refuse(f"the measuring process of {method} has ended: see above")
        return float(answer)


def starting(other: Path, repetitions: int) -> list[Row]:
    """Seconds until a help text is there."""

    def call(source: Path, *words: str) -> float:
        command = [sys.executable, "-m", "tfcsr", *words]
        env = os.environ | {"PYTHONPATH": str(source)}

        def start() -> None:
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)

        return seconds(start)

    rows: list[Row] = []
    for words in (("--help",), ("run", "--help")):
        subjects = {
            "other": lambda words=words: call(other, *words),
            "this": lambda words=words: call(ROOT / "src", *words),
        }
        found = interleaved(subjects, repetitions)
        name = " ".join(("tfcsr", *words))
        rows += [{"what": f"{name}, {which}: s", **summary(values)} for which, values in found.items()]
        rows.append({"what": f"{name}: this / other", **ratio(found["this"], found["other"])})
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve()
        return
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "tfcsr").is_dir():
        refuse("give the src folder of another version first")
    other = Path(sys.argv.pop(1)).resolve()
    device = "cpu"
    if "--device" in sys.argv:
        place = sys.argv.index("--device")
        device = sys.argv[place + 1]
        del sys.argv[place : place + 2]
    options = arguments(__doc__, repetitions=9)
    versions = {"other": Version(other, device), "this": Version(ROOT / "src", device)}
    rows: list[Row] = starting(other, options.repetitions) if device == "cpu" else []
    for method in SUBJECTS:
        subjects = {name: (lambda v=v, m=method: v.measure(m)) for name, v in versions.items()}
        interleaved(subjects, 1)
        found = interleaved(subjects, options.repetitions)
        rows += [{"what": f"{method}, {name}: ms a step", **summary(values)} for name, values in found.items()]
        rows.append({"what": f"{method}: this / other", **ratio(found["this"], found["other"])})
        show(f"this version beside {other.parent.name}, {device}", rows, options.json)


if __name__ == "__main__":
    main()
