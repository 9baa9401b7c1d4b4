"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to past tasks are held in place."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tfcsr.data.tasks import Task
from tfcsr.methods import METHODS
from tfcsr.methods.base import Learner, Method, squared_distance


@METHODS.add("ewc")
class ElasticWeightConsolidation(Method):
    """λ Σ_s Σ_i F_s,i (θ_i - θ*_s,i)², one term per past task s, without a factor 1/2.

    The sum over tasks is a parabola in θ_i, kept as its curvature ΣF, its lowest point (the F-weighted mean of the θ*)
    and its value there, updated as a running mean: neither time nor memory grows with the tasks, and nothing cancels.
    """

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.curvature = [torch.zeros_like(p) for p in self.parameters()]
        self.lowest = [torch.zeros_like(p) for p in self.parameters()]
        self.offset = torch.zeros((), device=self.parameters()[0].device)

    def penalty(self) -> Tensor:
        return self.spec.ewc_lambda * (squared_distance(self.parameters(), self.lowest, self.curvature) + self.offset)

    def end_task(self, task: Task) -> None:
        for i, (p, fisher) in enumerate(zip(self.parameters(), self.fisher(task), strict=True)):
            total = self.curvature[i] + fisher
            share = torch.where(total > 0, fisher / total, 0.0)
            distance = p.detach() - self.lowest[i]
            self.offset += (self.curvature[i] * share * distance.square()).sum()
            self.lowest[i] += share * distance
            self.curvature[i] += fisher

    def fisher(self, task: Task) -> list[Tensor]:
        """The mean over batches of the squared gradient of the batch's mean cross-entropy, in eval mode, over the
        task's own training data as it lies, grouped by class.
        """
        model, size = self.learner.model, self.spec.batch_size
        fisher = [torch.zeros_like(p) for p in self.parameters()]
        batches = list(zip(task.train.x.split(size), task.train.y.split(size), strict=True))
        model.eval()
        for x, y in batches:
            loss = cross_entropy(model(self.learner.views.normalised(self.learner.view(x))), y)
            for f, g in zip(fisher, torch.autograd.grad(loss, self.parameters()), strict=True):
                f += g.square() / len(batches)
        model.train()
        return fisher
