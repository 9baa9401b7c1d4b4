"""Asking a model without training it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def predict(
    model: nn.Module,
    x: Tensor,
    prepare: Callable[[Tensor], Tensor] = lambda x: x,
    *,
    train_mode: bool = False,
) -> Tensor:
    """The logits for all of x, without gradients; the model is left in the mode it was in.

    `prepare` turns a slice of x into what the model takes. In train mode batch-norm statistics move.
    """
    # A GPU wants much at once; on a CPU, small parts stay in the cache.
    batch_size = 2048 if x.is_cuda else 128
    before = model.training
    model.train(train_mode)
    try:
        with torch.no_grad():
            return torch.cat([model(prepare(part)) for part in x.split(batch_size)])
    finally:
        model.train(before)
