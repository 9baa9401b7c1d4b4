"""iCaRL (Rebuffi et al. 2017): herded exemplars, distillation, and the nearest mean of exemplars as classifier."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch
from tfcsr.methods.er import WITHOUT_WEIGHTING, ExperienceReplay

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner


@METHODS.add("icarl")
class NearestMeanOfExemplars(ExperienceReplay):
    """A sigmoid and a binary cross-entropy for each class seen, summed over classes: new classes are learned by their
    labels, old ones by what the network said of the same images before the task. The network yields features; the
    answer is the class whose exemplars have the nearest mean feature.
    """

    options: ClassVar = WITHOUT_WEIGHTING
    scenarios = ("class", "task")
    defaults: ClassVar = {"policy": "herding", "buffer_fill": "after"}
    style = ("#882255", "-.")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.old: nn.Module | None = None
        # As tensors that are changed in place: a recorded step goes on reading them.
        self.known, self.past = (torch.zeros(learner.classes, device=learner.device) for _ in range(2))

    def begin_task(self, task: "Task") -> None:
        super().begin_task(task)
        self.past.copy_(self.known)
        self.known[list(task.classes)] = 1
        if task.number > 1:
            self.old = self.learner.frozen_copy(self.old)

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        target = self._one_hot(batch.y)
        if self.old is not None:
            with torch.no_grad():
                said = self.learner.forward(self.old, batch.x).float().sigmoid()
            target = torch.where(self.past > 0, said, target)
        each = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), target, reduction="none")
        # Where tasks are told, an example of an old one says nothing of the new classes.
        reached = self.within(self.known.expand_as(each), batch.y).clamp(min=0)
        return (each * torch.where(self.past > 0, self.known, reached)).sum(dim=1).mean()

    def predict(self, x: "Tensor") -> "Tensor":
        if len(self.learner.buffer) == 0:
            return super().predict(x)
        means, empty = self._means()
        distance = torch.cdist(torch.nn.functional.normalize(self.learner.features(x), dim=1), means)
        return (-distance).masked_fill(empty, -torch.inf)

    def _means(self) -> "tuple[Tensor, Tensor]":
        """The mean feature of each class's exemplars, of length 1, and which classes have none."""
        buffer, normalize = self.learner.buffer, torch.nn.functional.normalize
        total = count = torch.zeros(())
        for some in buffer.in_blocks():
            of = self._one_hot(buffer.y[some])
            total = total + of.T @ normalize(self.learner.features(buffer.examples(some)), dim=1)
            count = count + of.sum(dim=0)
        return normalize(total, dim=1), count == 0

    def exported(self) -> "nn.Module":
        from tfcsr.models.head import NearestMean

        if len(self.learner.buffer) == 0:
            return super().exported()
        nearest: nn.Module = NearestMean(self.learner.model, self.learner.head, *self._means())
        return nearest

    def _one_hot(self, y: "Tensor") -> "Tensor":
        return (y[:, None] == torch.arange(self.learner.classes, device=y.device)).float()
