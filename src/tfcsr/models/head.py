"""The last linear layer of a network, and what it is fed with: the features."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr.errors import SpecError
from tfcsr.models.predict import in_parts, mode


def find_head(model: nn.Module) -> nn.Linear:
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SpecError("the model has no linear layer at its end: there are no features to read")
    return linear[-1]


def features(model: nn.Module, x: Tensor, prepare: Callable[[Tensor], Tensor] = lambda x: x) -> Tensor:
    """What the head is fed with for each of x, in eval mode, without gradients."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        found.append(inputs[0].float().flatten(1))

    handle = find_head(model).register_forward_pre_hook(keep)
    try:
        with mode(model, False), torch.no_grad():
            for part in in_parts(x):
                model(prepare(part))
    finally:
        handle.remove()
    return torch.cat(found)
