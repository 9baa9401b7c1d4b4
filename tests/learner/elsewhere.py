"""What happens to learners in another process: `python -m tests.learner.elsewhere FOLDER`."""

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from tests.learner.conftest import A, B, C, dropping, images, make, mlp, normalising
from tfcsr import Learner

# Learners by name: all methods, then what else is kept from one day to the next.
VARIETIES: dict[str, dict[str, Any]] = {
    "sgd": {"method": "er", "optimizer": "sgd", "lr": 0.05},
    "adamw": {"method": "derpp", "optimizer": "adamw", "weight_decay": 0.1},
    "cosine": {"method": "tfcsr", "lr_schedule": "cosine", "warmup_epochs": 1.0},
    "dropout": {"method": "icarl", "model": dropping},
    "crop-flip": {"method": "tfcsr", "augment": "crop-flip"},
    "frozen-views": {"method": "er", "augment": "crop-flip", "replay_view": "frozen"},
    "batch-norm": {"method": "tfcsr", "model": normalising, "probe_mode": "train"},
    "balanced": {"method": "er-ace", "policy": "class-balanced"},
    "herding": {"method": "tfcsr-spaced", "policy": "herding"},
    "cnn": {"method": "si", "model": "cnn"},
    "bf16": {"method": "ewc", "precision": "bf16"},
}

KILLED = ("derpp", "ewc", "joint", "mgp", "tfcsr")
EPOCHS = 4
KILLED_IN = 3
# So that nothing is mastered too soon.
PATIENT = {"mgp": {"max_epochs": EPOCHS, "mastery_threshold": 100.0, "lr": 1e-5}}


def fields(name: str) -> dict[str, Any]:
    return VARIETIES.get(name, {"method": name})


def own_model(name: str) -> Any:
    """What has to be given again when it is loaded."""
    model = fields(name).get("model", mlp)
    return None if isinstance(model, str) else model


def go_on(folder: Path) -> None:
    """Each learner there learns two more instalments, and is saved, loaded and saved in between."""
    for place in sorted(folder.iterdir()):
        for labels in (B, C):
            learner = Learner.load(place, model=own_model(place.name))
            learner.learn(*images(labels))
            learner.save(place)


def patient(method: str) -> Learner:
    return make(method, epochs=EPOCHS, checkpoint_every=1, **PATIENT.get(method, {}))


def killed(folder: Path) -> None:
    """Learners that were killed: each in its first learn, and in one with new classes."""
    patient("er").learn(*images(A))  # what torch imports late is imported once for all forks
    for method in KILLED:
        for name, before, labels in (("first", (), A), ("later", (A,), B)):
            _in_a_fork(lambda place, b=before, y=labels: _die(place, b, y), folder / f"{method}-{name}")


def _die(place: Path, before: tuple[Any, ...], labels: tuple[str, ...]) -> None:
    learner = patient(place.name.partition("-")[0])
    for one in before:
        learner.learn(*images(one))
    learner.save(place)

    def die(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == KILLED_IN and event["step"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    learner.learn(*images(labels), listeners=[die])


def _in_a_fork(work: Any, place: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons do not like a fork beside threads; nothing of ours is in one
        child = os.fork()
    if child == 0:
        try:
            work(place)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{place.name} was not killed"
    assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    torch.set_num_threads(1)
    killed(Path(sys.argv[1]) / "killed")
    go_on(Path(sys.argv[1]) / "travelled")
