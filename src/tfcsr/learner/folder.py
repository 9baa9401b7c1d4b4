"""A learner's folder: `spec.json` says what it is, `checkpoint` holds its state, `history` what it has been through,
`learning` the progress of a learn that is not done; `model.safetensors` and `history.json` are for others to read.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tfcsr.errors import OutputError, SpecError, TfcsrWarning
from tfcsr.experiments.history import NOTED, Noted
from tfcsr.files import read_json
from tfcsr.learner.records import History
from tfcsr.spec import OF_BENCHMARKS, LearnerSpec, Parts
from tfcsr.training.model_file import ModelFile, encoded

FORMAT = 1


def is_learner(folder: Path) -> bool:
    file = folder / "spec.json"
    if not file.exists():
        return False
    about = read_json(file)
    return isinstance(about, dict) and "learner" in about


def read_about(folder: Path) -> dict[str, Any]:
    if not (folder / "spec.json").exists():
        raise OutputError(f"{folder} holds no learner: give a folder that `save` or `tfcsr learn` has written")
    about = read_json(folder / "spec.json")
    if not isinstance(about, dict) or "learner" not in about:
        raise OutputError(f"{folder} holds a run, and that kept no network: give the folder of a learner")
    kinds: dict[str, Any] = {
        "id": str,
        "normalise": str | list,
        "spec": dict,
        "model": str,
        "transform": str,
        "size": int | None,
        "head": str | None,
    }
    if about["learner"] != FORMAT:
        raise OutputError(
            f"{folder} has format {about['learner']!r}, this version of tfcsr reads {FORMAT}: use the one that wrote it"
        )
    for name, kind in kinds.items():
        if not isinstance(about.get(name, 0.0), kind):
            raise OutputError(f"{folder / 'spec.json'} is damaged: {name} is {json.dumps(about.get(name))[:60]}")
    return about


def require_given(folder: Path, name: str, was: bool, given: bool, what: str) -> None:
    if was and not given:
        raise SpecError(f"{folder} was made with a {name} of its own ({what}): give it again, load(..., {name}=...)")
    if given and not was:
        raise SpecError(f"{folder} was made without a {name} of its own: leave {name} out")


def spec_of_run(kept: ModelFile) -> dict[str, Any]:
    """What a learner that goes on from a run's network is made with. Where it ran does not matter to it."""
    given = {name: value for name, value in kept.spec.items() if name not in OF_BENCHMARKS and value is not None}
    apply = Parts(given, LearnerSpec.fields()).options
    where = ("device", "precision", "threads")
    return {name: value for name, value in given.items() if name in apply and name not in where}


def state_of_run(kept: ModelFile) -> dict[str, Any]:
    """What a run has kept as the state of a learner; the optimizer begins anew."""
    try:
        parts = {name: kept.beside[name] for name in ("buffer", "method")}
        parts["exam"] = kept.beside.get("exam")  # since 0.4.0
    except KeyError:
        raise OutputError("a network was kept without its buffer: it cannot be used") from None
    return {
        "built": {"shape": list(kept.shape), "dtype": str(kept.dtype).removeprefix("torch.")},
        "labels": [encoded(label) for label in kept.labels],
        "mean": kept.mean,
        "std": kept.std,
        "head": kept.head,
        "modes": {},
        "frozen": None,
        "loop": {"model": kept.weights, "probes": [], "progress": None, "tasks": kept.beside.get("tasks", 0)} | parts,
        "past": [],
        "pending": None,
    } | History().state_dict()


# What a probe has in the state of the loop; the history has it too, with what was found of each class.
_OF_LOOP = ("task", "epoch", "recall", "passed", "next_epoch")


def without_history(state: Mapping[str, Any], noted: Noted) -> dict[str, Any]:
    """A state as it is written: of its history only what the folder does not hold yet, and where the rest is."""
    loop = state["loop"]
    return dict(state) | {
        "loop": None if loop is None else {name: value for name, value in loop.items() if name != "probes"},
        **noted.more(state),
        NOTED: noted.reference(),
    }


def with_history(state: dict[str, Any], folder: Path, number: int) -> tuple[Noted | None, dict[str, Any]]:
    """The same as it was before, and what the folder holds. Where an earlier version wrote it, it is whole already."""
    if NOTED not in state:
        return None, state
    noted, found = Noted.read(folder, state[NOTED], number)
    whole = {name: value for name, value in state.items() if name != NOTED}
    whole |= {name: [*entries, *state[name]] for name, entries in found.items()}
    if whole["loop"] is not None:
        probes = [{name: probe[name] for name in _OF_LOOP} for probe in whole["probes"]]
        whole["loop"] = whole["loop"] | {"probes": probes}
    return noted, whole


def source_of(made_by: Any) -> str:
    kind = type(made_by) if isinstance(made_by, nn.Module) else made_by
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', type(kind).__name__)}"


def warn(text: str) -> None:
    warnings.warn(text, TfcsrWarning, stacklevel=3)
