"""Learning without forgetting (Li & Hoiem 2016): what the network said of the new images before the task is kept."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch, Method
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

WEIGHTING = (
    "weights of cross-entropy and distillation at task k. `constant`: 1 and distill_weight. `each`: in scenarios task"
    " and domain, distillation k - 1 times, once for each past task. `tasks`: as `each`, times 1/k and 1 - 1/k"
)


@METHODS.add("lwf")
class LearningWithoutForgetting(Method):
    """CE(new) + w KL(before || now) on the new images alone, at temperature T: there is no memory of old ones.

    Before, only the classes of past tasks had a share; now all that were seen do, as in the code of van de Ven et al.
    (2022). In scenario `task` the divergence is within each past task, the mean over these. Its gradient is that of the
    soft cross-entropy, without a factor T². In the first task there is nothing to recall.
    """

    options: ClassVar = (
        Option("distill_weight", float, 1.0, "weight of the distillation loss", low=0, high=1e6),
        Option("temperature", float, 2.0, "temperature of the distillation", low=0.01, high=1e3),
        Option("weighting", str, "constant", WEIGHTING, choices=("constant", "each", "tasks")),
    )
    scenarios: ClassVar[tuple[str, ...]] = ("class", "domain", "task")
    style = ("#8B4513", "--")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.old: nn.Module | None = None
        # As tensors that are changed in place: a recorded step goes on reading them.
        self.known, self.past = (
            torch.zeros(learner.classes, dtype=torch.bool, device=learner.device) for _ in range(2)
        )
        self.task_number = torch.ones((), device=learner.device)

    def begin_task(self, task: "Task") -> None:
        self.past.copy_(self.known)
        self.known[list(task.classes)] = True
        self.task_number.fill_(task.number)
        if task.number > 1 and self.spec.distill_weight:
            self.old = self.learner.frozen_copy(self.old)

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        from tfcsr.methods.distillation import divergence

        loss = super().loss(batch, logits)
        if self.old is None:
            return loss
        with torch.no_grad():
            before = self.learner.forward(self.old, batch.x).float()
        told = self.learner.task_of
        lost = divergence(before, logits.float(), self.past, self.spec.temperature, told, now_among=self.known)
        kept: Tensor = self.spec.distill_weight * lost
        if self.spec.weighting == "tasks":
            return loss / self.task_number + (1 - 1 / self.task_number) * kept
        if self.spec.weighting == "each" and self.spec.get("scenario", "class") != "class":
            kept = (self.task_number - 1) * kept
        return loss + kept
