"""Synaptic intelligence (Zenke et al. 2017): weights whose movement lowered the loss are held in place."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

EPSILON = 1e-7
LARGEST_IMPORTANCE = 0.001
DAMPING = "damping: added to the squared distance in the denominator of the importance"
HIGHEST = "upper bound of a weight's importance; 0: no bound"


@METHODS.add("si")
class SynapticIntelligence(Method):
    """(λ/2) Σ_i importance_i (θ_i - anchor_i)², the importance gathered along the way, step by step.

    The copies of the weights are copies: an alias of the live ones makes every distance, and the whole method, zero.
    """

    options: ClassVar = (
        Option("si_lambda", float, 100.0, "weight of the penalty", low=0, high=1e12),
        Option(
            "si_lowest",
            str,
            "zero",
            "lower bound of a weight's importance: `zero`, or `none`, as in the paper, where a weight whose movement"
            " raised the loss is pushed away from its anchor",
            choices=("zero", "none"),
            paper="none",
            before="none",
        ),
        Option("si_highest", float, LARGEST_IMPORTANCE, HIGHEST, low=0, high=1e12),
        Option("si_damping", float, EPSILON, DAMPING, low=1e-30, high=1e12),
    )
    style = ("#56B4E9", "-.")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.anchor = self._copy()
        self.previous = self._copy()
        self.path, self.total, self.importance = ([torch.zeros_like(p) for p in self.anchor] for _ in range(3))

    def grow(self, before: int) -> None:
        """The new outputs have not moved yet: they are where they begin."""
        shapes = [part.shape for part in self.anchor]
        super().grow(before)
        for kept in (self.anchor, self.previous):
            for mine, now, shape in zip(kept, self.parameters(), shapes, strict=True):
                if mine.shape != shape:
                    mine[before:] = now.detach()[before:]

    def parameters(self) -> "list[nn.Parameter]":
        """All but those of batch normalisation."""
        modules = [m for m in self.learner.model.modules() if not isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        return [p for m in modules for p in m.parameters(recurse=False) if p.requires_grad]

    def _copy(self) -> "list[Tensor]":
        return [p.detach().clone() for p in self.parameters()]

    def penalty(self) -> "Tensor":
        from tfcsr.methods.distance import squared_distance

        weight: float = self.spec.si_lambda / 2
        return weight * squared_distance(self.parameters(), self.anchor, self.importance)

    def after_step(self) -> None:
        parts = zip(self.parameters(), self.previous, self.path, strict=True)
        moved = [(p.detach(), p.grad, previous, path) for p, previous, path in parts if p.grad is not None]
        now, gradients, previous, path = (list(part) for part in zip(*moved, strict=True))
        torch._foreach_addcmul_(path, gradients, torch._foreach_sub(now, previous))
        torch._foreach_copy_(previous, now)

    def end_task(self, task: "Task") -> None:
        for i, p in enumerate(self.parameters()):
            moved = (p.detach() - self.anchor[i]).square()
            self.total[i] += self.path[i] / (moved + self.spec.si_damping)
            lowest = 0.0 if self.spec.si_lowest == "zero" else -torch.inf
            self.importance[i].copy_((-self.total[i]).clamp(lowest, self.spec.si_highest or torch.inf))
            self.path[i].zero_()
            self.anchor[i].copy_(p.detach())
