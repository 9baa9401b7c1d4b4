"""Experience replay on Split MNIST, beside avalanche-lib's on its own SplitMNIST.

    python -m benchmarks.peers               # the time of a step
    python -m benchmarks.peers --accuracy 5  # final accuracy with equal settings, so many seeds each

Needs the peer (`pip install -c constraints.txt -e '.[peers]'`) and the real MNIST (`tfcsr data list`).
"""

import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Row, arguments, ratio, refuse, seconds, show, summary
from benchmarks.training import Training
from tfcsr.data import mnist
from tfcsr.data.tasks import Task
from tfcsr.errors import DataError
from tfcsr.experiments.machine import cores, on_this_machine
from tfcsr.experiments.run import run
from tfcsr.experiments.statistics import estimate
from tfcsr.spec import RunSpec
from tfcsr.training.loop import build_model

# Beside a CPU build of torch, torchvision's compiled operators are missing, and its import stumbles over two of them.
_library = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
warnings.simplefilter("ignore")

try:
    from avalanche.benchmarks.classic import SplitMNIST
    from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin
    from avalanche.training.supervised import Naive
except ImportError as error:
    refuse(f"the peer is not here ({error}): pip install -c constraints.txt -e '.[peers]'")


ORDER = (2, 6, 1, 8, 4, 5, 0, 9, 3, 7)
# Of both: the paper's CNN, one epoch of 32 new and 32 replayed images a step, Adam 0.001, a memory of 200 that is
# filled after each task and shared evenly. In the first task there is nothing to replay: 32 new images a step.
EQUAL: dict[str, Any] = {
    "benchmark": "split-mnist",
    "method": "er",
    "class_order": ORDER,
    "epochs": 1,
    "batch_size": 64,
    "buffer_capacity": 200,
    "buffer_fill": "after",
    "policy": "class-balanced",
    "unmixed": "same",
    "device": "cpu",
}


def compare_accuracy(root: Path, seeds: int, threads: int, json: Path | None) -> None:
    """Final accuracy over all ten digits, in percent: theirs with global seeds, ours with as many of our own."""
    theirs, ours = [], []
    for seed in range(seeds):
        torch.manual_seed(seed)
        benchmark = SplitMNIST(n_experiences=5, fixed_class_order=list(ORDER), dataset_root=str(root))
        strategy = _strategy(RunSpec(**EQUAL, threads=threads, seed=seed))
        for experience in benchmark.train_stream:
            strategy.train(experience, num_workers=0)
        strategy.model.eval()
        right = total = 0
        with torch.no_grad():
            for experience in benchmark.test_stream:
                for x, y, *_ in torch.utils.data.DataLoader(experience.dataset, batch_size=500):
                    right += int((strategy.model(x).argmax(dim=1) == y).sum())
                    total += len(y)
        theirs.append(100 * right / total)
        ours.append(run(RunSpec(**EQUAL, threads=threads, seed=seed)).final_accuracy)
    rows: list[Row] = [
        {"what": "avalanche-lib ER: final accuracy %", **spread(theirs)},
        {"what": "tfcsr er: final accuracy %", **spread(ours)},
    ]
    show("experience replay on Split MNIST, equal settings", rows, json)


def spread(values: list[float]) -> Row:
    found = estimate(values)
    return {"mean": found.mean, "95 % low": found.low or "–", "95 % high": found.high or "–", "n": found.n}


def _strategy(spec: RunSpec) -> Any:
    model = build_model(spec, (1, 28, 28), 10).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=32,
        train_epochs=1,
        plugins=[ReplayPlugin(mem_size=200, batch_size=32, batch_size_mem=32)],
        evaluator=EvaluationPlugin(loggers=[]),
    )


def main() -> None:
    options = arguments(__doc__, threads=cores(), accuracy=0, least={"accuracy": 0})
    try:
        root = mnist.paths(None)[0].parents[2]
    except DataError as error:
        refuse(str(error))
    torch.set_num_threads(options.threads)
    if options.accuracy:
        compare_accuracy(root, options.accuracy, options.threads, options.json)
        return
    spec = on_this_machine(
        RunSpec(benchmark="split-mnist", method="er", device="cpu", threads=options.threads, epochs=1)
    )

    stream = SplitMNIST(n_experiences=5, fixed_class_order=list(ORDER), dataset_root=str(root)).train_stream
    strategy = _strategy(spec)
    training = Training(spec, mnist.load(None))
    training.model.train()
    peer, ours = [], []
    for number, experience in enumerate(stream, start=1):
        task = training.tasks.task(number)

        def their_epoch(experience: object = experience) -> None:
            strategy.train(experience, num_workers=0)

        def our_epoch(task: Task = task) -> None:
            training.method.begin_task(task)
            training.steps.begin_task(task.train)
            training.epoch = 1
            for _ in training._train_epoch(task, len(task.train)):
                pass

        steps = -(-len(task.train) // 32)
        assert len(experience.dataset) == len(task.train)
        theirs, mine = seconds(their_epoch), seconds(our_epoch)
        if number > 1:  # in the first, their memory is still empty
            peer.append(1000 * theirs / steps)
            ours.append(1000 * mine / steps)
    rows: list[Row] = [
        {"what": "avalanche-lib ER: ms a step of 32 + 32", **summary(peer)},
        {"what": "tfcsr er: ms a step of 32 + 32", **summary(ours)},
        {"what": "avalanche-lib / tfcsr", **ratio(peer, ours)},
    ]
    show(f"experience replay on Split MNIST, tasks 2-5, {options.threads} threads", rows, options.json)


if __name__ == "__main__":
    main()
