"""A step that several processes take together: each asks the network about its share of the batch, and all compute the
loss of the whole.

No loss has to know of it. What the network says is gathered, so a loss sees the batch as one process would. Its
gradient then flows back through this process's own rows alone, times the number of processes. What does not go through
rows, a penalty say, every process computes alike. So the mean of all processes' gradients is the gradient of one.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr import processes
from tfcsr.processes import Processes


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, count: int, here: Processes) -> Tensor:
        ctx.here = here
        return here.whole(own, count)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        (gradient,) = outer
        return gradient[ctx.here.rows(len(gradient))] * ctx.here.count, None, None


def gathered(own: Tensor, count: int) -> Tensor:
    """What all processes have for their rows of so many examples. Its gradient is that of this process's rows, times
    the number of processes.
    """
    found: Tensor = _Gathered.apply(own, count, processes.here())  # type: ignore[no-untyped-call]
    return found


def shared(ask: Callable[..., Any]) -> Callable[..., Any]:
    """A function that asks a network, or its parts, about a batch, its last argument: each process asks about its own
    rows, and has the answers to all.
    """

    def ask_together(*given: Any) -> Any:
        *network, x = given
        here = processes.here()
        if not here.is_shared(len(x)):
            return ask(*network, x)
        with here.sharing(len(x)) as rows:
            found = ask(*network, x[rows])
        if isinstance(found, tuple):
            return tuple(gathered(part, len(x)) for part in found)
        return gathered(found, len(x))

    return ask_together


def settle(model: nn.Module) -> None:
    """Let a network's own counts be the same in all processes: running statistics are the mean of what each process has
    seen in its rows, whatever else there is comes from process 0.

    Once an epoch is enough. Training does not read running statistics, and the mean of moving means is the moving mean
    of the means.
    """
    here = processes.here()
    if not here.several:
        return
    with torch.no_grad():
        for module in model.modules():
            counts = isinstance(module, nn.modules.batchnorm._NormBase) and module.training
            for buffer in module.buffers(recurse=False):
                if counts and buffer.is_floating_point():
                    buffer.copy_(here.total(buffer) / here.count)
                else:
                    lying = buffer.contiguous()
                    here._broadcast(lying)
                    buffer.copy_(lying)
