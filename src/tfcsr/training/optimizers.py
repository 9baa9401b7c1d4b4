"""Optimizers, and the learning rate within a task."""

import functools
import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tfcsr.errors import SpecError
from tfcsr.spec import RunSpec


def make_optimizer(spec: RunSpec, model: nn.Module) -> Optimizer:
    """The spec's optimizer of all parameters that are trained. On a GPU its steps can be recorded."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise SpecError(f"model {spec.model} has no parameter that is trained: leave one unfrozen")
    on_gpu = parameters[0].device.type == "cuda"
    # A rate that varies is read from a tensor: a recorded step would go on with the number it was recorded with.
    rate: Any = torch.tensor(spec.lr, device=parameters[0].device) if on_gpu and varies(spec) else spec.lr
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    kind: Any = kinds[spec.optimizer]
    own = {"momentum": spec.momentum} if spec.optimizer == "sgd" else {"capturable": on_gpu}
    kind = kind if on_gpu else without_compiler(kind)
    made: Optimizer = kind(parameters, lr=rate, weight_decay=spec.weight_decay, fused=True, **own)
    return made


@functools.cache
def without_compiler(kind: type[Optimizer]) -> type[Optimizer]:
    """The same optimizer, but for torch's precautions against being compiled. They load the whole compiler, which took
    half of the start of a process; and on a CPU nothing is compiled.
    """
    plain = {
        name: inspect.unwrap(getattr(kind, name))
        for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    }
    return type(kind.__name__, (kind,), plain | {"step": torch.no_grad()(inspect.unwrap(kind.step))})


def exchange(optimizer: Optimizer, old: nn.Parameter, new: nn.Parameter) -> None:
    """Let the optimizer train a parameter in the place of another that had fewer rows. What it keeps of the rows they
    share stays; of the others it begins at 0.
    """
    for group in optimizer.param_groups:
        group["params"] = [new if parameter is old else parameter for parameter in group["params"]]
    if old not in optimizer.state:
        return
    state = optimizer.state.pop(old)
    for name, value in state.items():
        if isinstance(value, Tensor) and value.shape == old.shape:
            state[name] = torch.zeros_like(new, requires_grad=False)
            state[name][: len(old)] = value
    optimizer.state[new] = state


def varies(spec: RunSpec) -> bool:
    return spec.lr_schedule != "constant" or spec.warmup_epochs > 0


def rates(spec: RunSpec, start: float, epochs: int, steps: int, per_epoch: float) -> Tensor | None:
    """The learning rate of each of so many steps, from `start` epochs into a task of `epochs` on, where an epoch has
    `per_epoch` steps; None where it is always the same.

    It rises over the first `warmup_epochs` in equal parts to `lr`, which it has for the first time in the last step of
    them; under `cosine` it then falls to nearly 0 in the last step of the task.
    """
    if not varies(spec):
        return None
    rise = min(spec.warmup_epochs, epochs)
    found = []
    for step in range(1, steps + 1):
        now = start + step / per_epoch  # in epochs, when the step is done
        before = start + (step - 1) / per_epoch
        if before < rise:
            found.append(spec.lr * min(1.0, now / rise))
        elif spec.lr_schedule == "cosine" and rise < epochs:
            # A pass that is cut off has steps planned beyond the task's end.
            turn = min(math.pi, math.pi * (before - rise) / (epochs - rise))
            found.append(spec.lr * 0.5 * (1 + math.cos(turn)))
        else:
            found.append(spec.lr)
    return torch.tensor(found, dtype=torch.float64)


def set_rate(optimizer: Optimizer, rate: Tensor) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].copy_(rate)
        else:
            group["lr"] = rate.item()
