"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to past tasks are held in place."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner


@METHODS.add("ewc")
class ElasticWeightConsolidation(Method):
    """λ Σ_s Σ_i F_s,i (θ_i - θ*_s,i)², one term per past task s, without a factor 1/2.

    The sum over tasks is a parabola in θ_i, kept as its curvature ΣF, its lowest point (the F-weighted mean of the θ*)
    and its value there, updated as a running mean: neither time nor memory grows with the tasks, and nothing cancels.
    """

    options: ClassVar = (Option("ewc_lambda", float, 10_000.0, "weight of the penalty", low=0, high=1e12),)
    style = ("#CC79A7", "--")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.curvature = [torch.zeros_like(p) for p in self.parameters()]
        self.lowest = [torch.zeros_like(p) for p in self.parameters()]
        self.offset = torch.zeros((), device=self.parameters()[0].device)

    def penalty(self) -> "Tensor":
        from tfcsr.methods.distance import squared_distance

        weight: float = self.spec.ewc_lambda
        return weight * (squared_distance(self.parameters(), self.lowest, self.curvature) + self.offset)

    def end_task(self, task: "Task") -> None:
        for i, (p, fisher) in enumerate(zip(self.parameters(), self._fisher(task), strict=True)):
            total = self.curvature[i] + fisher
            share = torch.where(total > 0, fisher / total, 0.0)
            distance = p.detach() - self.lowest[i]
            self.offset += (self.curvature[i] * share * distance.square()).sum()
            self.lowest[i] += share * distance
            self.curvature[i] += fisher

    def _fisher(self, task: "Task") -> "list[Tensor]":
        """The mean over batches of the squared gradient of the batch's mean cross-entropy, in eval mode, over the
        task's own training data as it lies, grouped by class.
        """
        from tfcsr.models.predict import mode

        model, size, parameters = self.learner.model, self.spec.batch_size, self.parameters()
        fisher = [torch.zeros_like(p) for p in parameters]
        batches = list(zip(task.train.x.split(size), task.train.y.split(size), strict=True))
        with mode(model, False), self.learner.generators.dropout_at("fisher"):
            for number, (x, y) in enumerate(batches):
                if number % 256 == 0:
                    task.train.release()
                logits = model(self.learner.views.normalised(self.learner.view(x)))
                loss = torch.nn.functional.cross_entropy(logits, y)
                # A parameter that this loss does not reach has no say in it.
                for f, g in zip(fisher, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
                    if g is not None:
                        f += g.square() / len(batches)
        return fisher
