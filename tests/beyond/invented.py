"""Records of runs that never were, with the shape of real ones: whole studies without training anything."""

import random
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from tfcsr.beyond.arms import ARMS, SECTIONS
from tfcsr.beyond.study import Beyond
from tfcsr.experiments.record import Record, Records
from tfcsr.experiments.study import section_of
from tfcsr.methods.base import is_listed
from tfcsr.spec import RunSpec

PER_CLASS = 500  # images of CIFAR-100
# A spec takes a millisecond to make, and a study has hundreds.
SPECS: dict[tuple[str, int, str], RunSpec] = {}


DUE = (1, 3, 5, 8, 13)  # whatever a run's schedule is


def is_driven(spec: RunSpec) -> bool:
    return spec.get("replay_epochs") == "due" or spec.method == "tfcsr-spaced"


def replay_epochs(spec: RunSpec) -> float:
    """Of a task, on the average of those that have something to replay."""
    if is_driven(spec):
        return len(DUE)
    listed = spec.get("replay_epochs", "none")
    later = range(2, spec.tasks + 1)
    return fmean(sum(is_listed(listed, task, epoch) for epoch in range(1, spec.epochs + 1)) for task in later)


def record_of(spec: RunSpec, final: float, **more: Any) -> Record:
    """A run that ended at this accuracy, with the counts that its spec leads to."""
    steps = -(-PER_CLASS * 100 // spec.tasks // spec.batch_size)
    later = spec.tasks - (spec.method in ("tfcsr-distill", "tfcsr-spaced"))
    batches = round(replay_epochs(spec) * steps * later)
    driven = is_driven(spec)
    values: dict[str, Any] = {
        "accuracy_after_task": [min(100.0, final + 40 * (1 - i / spec.tasks)) for i in range(1, spec.tasks)] + [final],
        "held_out_accuracy": None if spec.held_out == 0 else final + 1,
        "replay_batches": batches,
        "optimizer_steps": steps * spec.epochs * spec.tasks,
        "epochs_per_task": [spec.epochs] * spec.tasks,
        "probes": [[task, epoch, 90.0] for task in range(1, spec.tasks + 1) for epoch in DUE] if driven else [],
        "seconds": 30.0,
        "collapsed": None,
        "weights_sha256": "0" * 64,
        "spec": spec.to_dict(),
        "environment": {"torch": "2.13.0", "processor": "invented", "cores": 2},
        "replayed": batches * (spec.get("replay_per_batch") or spec.batch_size // 2),
    }
    return Record(**values | more)


def answers(spec: RunSpec, seed: int, recall: Callable[[float], float], asked: int) -> dict[str, Any]:
    """What the memory says of each class after each task, when a class of some accuracy is recalled like this."""
    rng, classes = random.Random(seed), 100
    found: dict[str, list[list[Any]]] = {"recall_asked": [], "recall_right": [], "class_accuracy": []}
    for task in range(1, spec.tasks + 1):
        seen = classes * task // spec.tasks
        accuracy = [round(min(100.0, max(0.0, rng.gauss(90 - 4 * task, 22)))) for _ in range(classes)]
        counts = [max(1, asked // seen) if label < seen else 0 for label in range(classes)]
        right = [sum(rng.random() < recall(a / 100) for _ in range(n)) for n, a in zip(counts, accuracy, strict=True)]
        found["class_accuracy"].append([float(a) for a in accuracy])
        found["recall_asked"].append(counts)
        found["recall_right"].append(right)
        found.setdefault("accuracy_after_task", []).append(sum(accuracy[:seen]) / seen)  # type: ignore[arg-type]
    return found


def study_of(
    records: Iterable[Record] = (),
    sections: Sequence[str] = tuple(SECTIONS),
    seeds: int = 5,
    data: str | None = None,
) -> Beyond:
    arms = [name for name in ARMS if section_of(name) in sections]
    study = Beyond(arms, range(seeds), data, Records(list(records)))
    study._specs = SPECS
    return study


def fill(study: Beyond, final: Callable[[str, int], float | None], seeds: int = 5) -> Beyond:
    """Every run of its sections for which there is an accuracy; controls that match another arm after it."""
    for name, arm in ARMS.items():
        if section_of(name) not in study.sections:
            continue
        for seed, spec in study.specs(name).items():
            if seed - arm.first_seed >= seeds * arm.times or (end := final(name, seed)) is None:
                continue
            more: dict[str, Any] = {}
            if arm.per_class:
                exam = section_of(name) == "exam"
                number = seed + 100 * (spec.method == "er")
                more = answers(spec, number, (lambda p: p) if exam else (lambda p: 0.9 + p / 10), 100 if exam else 1000)
                more["accuracy_after_task"][-1] = end
            study.add(record_of(spec, end, **more))
    return study


def put(study, arm, finals, **more):
    """Runs of an arm that ended like this, by seed."""
    for seed, final in finals.items():
        study.add(record_of(study.specs(arm)[seed], final, **more))


def answering(study, arm, seed, asked, right, accuracy, after):
    spec = study.specs(arm)[seed]
    after = [*after, *[after[-1]] * (spec.tasks - len(after))]
    answers = {"recall_asked": asked, "recall_right": right, "class_accuracy": accuracy, "accuracy_after_task": after}
    study.add(record_of(spec, 0.0, **answers))


BASE = {"er": 33.0, "er-ace": 41.0, "derpp": 38.0, "icarl": 44.0, "tfcsr-distill": 50.5, "joint": 62.0}
OF_WHEN = {
    "every": 0.0,
    "spaced": 0.1,
    "fourth": 0.4,
    "two": -2.0,
    "one": -6.0,
    "none": -20.0,
    "sixteen": -1.0,
    "eight": -3.0,
    "random": -0.4,
    "same-new": -2.0,
}


def plausible(name: str, seed: int) -> float:
    """Something like what might come out."""
    name = name.removeprefix("balanced/")
    if name.startswith("small/"):  # a question of another section, or ours as it is
        name = name.split("/", 2)[2]
    section, *rest = name.split("/")
    if section == "elsewhere" and rest[1] == "frontier":
        section, *rest = rest[1:]
    rng = random.Random(f"{name} {seed}")
    noise = 0.5 * random.Random(seed).random() + 0.4 * rng.random()
    if section in ("accuracy", "exam"):
        return BASE[rest[0]] + noise - (section == "exam")
    if section == "frontier":
        harder = {"er": 1.5, "er-ace": 1.2, "tfcsr-distill": 0.6}[rest[0]]
        return max(8.0, BASE[rest[0]] + harder * OF_WHEN[rest[1]]) + noise
    if section == "field":
        return {"500": 50.0, "2000": 58.0}[rest[0]] + noise
    if section == "elsewhere" and rest[1] == "long":
        return 38.0 + noise
    if section == "elsewhere":
        return BASE[rest[1]] + noise + {"mnist": 30, "20-tasks": -8, "50-tasks": -15, "cnn": -12}[rest[0]]
    return BASE["tfcsr-distill"] + noise - rng.choice((0, 1, 3))
