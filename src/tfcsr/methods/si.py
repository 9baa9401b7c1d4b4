"""Synaptic intelligence (Zenke et al. 2017): weights whose movement lowered the loss are held in place."""

import torch
from torch import Tensor, nn

from tfcsr.data.tasks import Task
from tfcsr.methods import METHODS
from tfcsr.methods.base import Learner, Method, squared_distance

EPSILON = 1e-7
LARGEST_IMPORTANCE = 0.001


@METHODS.add("si")
class SynapticIntelligence(Method):
    """(λ/2) Σ_i importance_i (θ_i - anchor_i)², the importance gathered along the way, step by step.

    The copies of the weights are copies: an alias of the live ones makes every distance, and the whole method, zero.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.anchor = self.copy()
        self.previous = self.copy()
        self.path, self.total, self.importance = ([torch.zeros_like(p) for p in self.anchor] for _ in range(3))

    def parameters(self) -> list[nn.Parameter]:
        """All but those of batch normalisation."""
        modules = [m for m in self.learner.model.modules() if not isinstance(m, nn.modules.batchnorm._BatchNorm)]
        return [p for m in modules for p in m.parameters(recurse=False) if p.requires_grad]

    def copy(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.parameters()]

    def penalty(self) -> Tensor:
        return self.spec.si_lambda / 2 * squared_distance(self.parameters(), self.anchor, self.importance)

    def after_step(self) -> None:
        parts = zip(self.parameters(), self.previous, self.path, strict=True)
        moved = [(p.detach(), p.grad, previous, path) for p, previous, path in parts if p.grad is not None]
        now, gradients, previous, path = (list(part) for part in zip(*moved, strict=True))
        torch._foreach_addcmul_(path, gradients, torch._foreach_sub(now, previous))
        torch._foreach_copy_(previous, now)

    def end_task(self, task: Task) -> None:
        for i, p in enumerate(self.parameters()):
            moved = (p.detach() - self.anchor[i]).square()
            self.total[i] += self.path[i] / (moved + EPSILON)
            self.importance[i].copy_((-self.total[i]).clamp(max=LARGEST_IMPORTANCE))
            self.path[i].zero_()
            self.anchor[i].copy_(p.detach())
