"""Asking a model without training it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr.errors import SpecError

# So many examples at once: a GPU wants much; on a CPU, small parts stay in the cache.
PART, PART_ON_GPU = 128, 2048  # the one a multiple of the other


@contextmanager
def mode(model: nn.Module, training: bool) -> Iterator[None]:
    """The model in this mode, and every module of it back in its own afterwards. In train mode, one that is frozen for
    good stays so.
    """
    before = [(module, module.training) for module in model.modules()]
    if model.training != training:
        model.train(training)
    try:
        yield
    finally:
        for module, was in before:
            module.training = was


def predict(
    model: nn.Module,
    x: Tensor,
    prepare: Callable[[Tensor], Tensor] = lambda x: x,
    *,
    train_mode: bool = False,
) -> Tensor:
    """The logits for all of x, without gradients; every module is left in the mode it was in.

    `prepare` turns a slice of x into what the model takes. In train mode batch-norm statistics move.
    """
    with mode(model, train_mode), torch.no_grad():
        return torch.cat([logits(model(prepare(part)), len(part)) for part in in_parts(x)])


def in_parts(x: Tensor) -> tuple[Tensor, ...]:
    parts: tuple[Tensor, ...] = x.split(PART_ON_GPU if x.is_cuda else PART)
    return parts


def logits(output: Any, examples: int) -> Tensor:
    """The model's output if it is what a classifier's should be."""
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != examples:
        what = f"a tensor of {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise SpecError(f"the model gives {what} for {examples} examples: it must give logits, one row per example")
    return output
