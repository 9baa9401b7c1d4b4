"""`model.safetensors`: a network with all it takes to use it, its labels, its normalisation and how it was made.

The weights are there under their own names, for anyone; what a learner needs beside them, the buffer and what its
method keeps, has names that begin with `tfcsr/`.
"""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from tfcsr.buffer import disk
from tfcsr.errors import OutputError
from tfcsr.files import sync_folder, write_bytes
from tfcsr.training.checkpoint import NONSENSE, pack, put_together, take_apart
from tfcsr.training.loop import Loop

NAME = "model.safetensors"
FORMAT = 1
BESIDE = "tfcsr/"
ABOUT = "about"


@dataclass(frozen=True)
class ModelFile:
    spec: dict[str, Any]
    labels: tuple[Hashable, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    mean: Tensor | None
    std: Tensor | None
    head: str | None
    weights: dict[str, Tensor]
    beside: dict[str, Any]


def write_model(path: Path, loop: Loop, spec: dict[str, Any], labels: Sequence[Hashable], *, beside: bool) -> None:
    """Keep the network of a loop; `beside` it what its method predicts with and goes on from."""
    views = loop.learner.views
    more: dict[str, Any] = {"mean": views.mean, "std": views.std}
    if beside:
        more |= {
            "buffer": loop.learner.buffer.state_dict(),
            "exam": loop.learner.exam.state_dict() if loop.learner.exam.capacity else None,
            "method": loop.method.state_dict(),
            "tasks": len(loop.epochs_per_task),
        }
    tensors: dict[str, Tensor] = {}
    versions: dict[str, disk.Version] = {}
    rest = take_apart(more, BESIDE.rstrip("/"), tensors, versions)
    # A buffer on disk stays where it is, beside this file.
    buffers = {}
    for name, version in versions.items():
        buffers[name] = version.about() | {"rows": version.file.bring_to(path.parent / disk.FOLDER)}
        tensors |= {f"{name}/{field}": tensor for field, tensor in version.tensors.items()}
    for name, tensor in loop.model.state_dict().items():
        tensors[name] = tensor.detach().cpu()
    about = {
        "format": FORMAT,
        "spec": spec,
        "labels": [encoded(label) for label in labels],
        "shape": list(loop.shape),
        "dtype": str(loop.learner.buffer.dtype).removeprefix("torch."),
        "head": loop.learner.head,
        "beside": rest,
    } | ({"buffers": buffers} if buffers else {})
    write_bytes(path, pack(tensors, {ABOUT: json.dumps(about)}))
    sync_folder(path.parent)


def read_model(path: Path) -> ModelFile:
    """What `write_model` wrote, or an error that says why it is not that. Nothing in it is run."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(ABOUT, ""))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        if about["format"] != FORMAT:
            raise OutputError(f"{path} has format {about['format']!r}, this version of tfcsr reads {FORMAT}")
        versions = {name: _version(path, name, there, tensors) for name, there in about.get("buffers", {}).items()}
        beside = put_together(about["beside"], tensors, "cpu", versions)
        dtype = getattr(torch, str(about["dtype"]), None)
        if not isinstance(dtype, torch.dtype) or not isinstance(about["spec"], dict) or not isinstance(beside, dict):
            raise ValueError("it lacks something")
        return ModelFile(
            spec=about["spec"],
            labels=tuple(decoded(label) for label in about["labels"]),
            shape=tuple(int(size) for size in about["shape"]),
            dtype=dtype,
            mean=beside.pop("mean"),
            std=beside.pop("std"),
            head=None if about["head"] is None else str(about["head"]),
            weights={name: tensor for name, tensor in tensors.items() if not name.startswith(BESIDE)},
            beside=beside,
        )
    except FileNotFoundError:
        raise OutputError(f"{path} is not there: it holds the network") from None
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from None
    except NONSENSE as error:
        problem = str(error).partition("\n")[0]
        raise OutputError(f"{path} is not a network of tfcsr ({problem})") from None


def _version(path: Path, name: str, about: Any, tensors: dict[str, Tensor]) -> disk.Version:
    """A buffer that lies on disk: it is another's, whose file stays as it is."""
    if Path(about["rows"]).name != about["rows"]:
        raise ValueError("a file of it lies elsewhere")
    start = f"{name}/"
    own = {key.removeprefix(start): tensor for key, tensor in tensors.items() if key.startswith(start)}
    return disk.Version.read(about, path.parent / disk.FOLDER / about["rows"], own, own=False)


def encoded(label: Hashable) -> Any:
    """A label as JSON."""
    if isinstance(label, tuple):
        return {"tuple": [encoded(part) for part in label]}
    if type(label) in (int, str, float, bool):
        return label
    raise OutputError(f"label {label!r} cannot be saved: use text, numbers, or tuples of them")


def decoded(value: Any) -> Hashable:
    if isinstance(value, dict) and isinstance(value.get("tuple"), list):
        return tuple(decoded(part) for part in value["tuple"])
    if isinstance(value, int | str | float | bool):
        return value
    raise ValueError("a label is neither text nor a number")
