"""Batch normalisation over the rows that several processes have of a batch. torch has one for GPUs alone."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr import processes
from tfcsr.errors import SpecError
from tfcsr.processes import Processes


class _Total(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of all processes' gradients."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, here: Processes) -> Tensor:
        ctx.here = here
        return here.total(own)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        return ctx.here.total(outer[0]), None


class _Synchronised(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation by mean and variance of all processes' rows. Where every process has the whole batch, and
    outside training, it is that of torch.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or processes.here().apart is None:
            return super().forward(input)
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        here, x = processes.here(), input.float()
        over = (0, *range(2, x.ndim))
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        count = _all(x.numel() // x.shape[1], here)
        # Two passes, the means in doubles: nothing cancels.
        mean = _summed(x.sum(over), here) / count
        centred = x - mean.to(x.dtype).view(shape)
        variance = _summed(centred.square().sum(over), here) / count
        self._count(mean, variance * count / max(1, count - 1))
        found = centred * (variance + self.eps).rsqrt().to(x.dtype).view(shape)
        if self.affine:
            found = found * self.weight.view(shape) + self.bias.view(shape)
        return found.to(input.dtype)

    def _count(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            weight = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
            for kept, now in ((self.running_mean, mean), (self.running_var, variance)):
                kept.mul_(1 - weight).add_(weight * now.to(kept.dtype))


def _all(count: int, here: Processes) -> int:
    """How many values of a channel all processes have, where this one has so many: as many of each example."""
    assert here.apart is not None
    own, examples = here.apart
    if count % own == 0:
        return count // own * examples
    return int(here.total(torch.tensor([count])))


def _summed(own: Tensor, here: Processes) -> Tensor:
    found: Tensor = _Total.apply(own.double(), here)  # type: ignore[no-untyped-call]
    return found


class Synchronised1d(_Synchronised, nn.BatchNorm1d):
    pass


class Synchronised2d(_Synchronised, nn.BatchNorm2d):
    pass


class Synchronised3d(_Synchronised, nn.BatchNorm3d):
    pass


KINDS: Mapping[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: Synchronised1d,
    nn.BatchNorm2d: Synchronised2d,
    nn.BatchNorm3d: Synchronised3d,
}


def synchronise(model: nn.Module) -> None:
    """Let every layer of batch normalisation be one over all processes, in place: its weights, its name and whoever
    holds it stay.
    """
    for name, module in model.named_modules():
        if type(module) in KINDS:
            module.__class__ = KINDS[type(module)]
        elif isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, _Synchronised):
            raise SpecError(
                f"sync_batch_norm does not know layer {name}, a {type(module).__name__}: use one of torch.nn there, or"
                " no sync_batch_norm"
            )
