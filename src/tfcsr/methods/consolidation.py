"""When to recall the old: where it is due, and always once the new is known."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods.base import NEVER
from tfcsr.methods.tfcsr import TaskFocusedConsolidation
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

AT = (
    "with replay_epochs due: percent of an epoch's new examples, as they are trained on, that the network has to get"
    " right for the next epoch to replay, due or not; 0: what is due alone"
)


class Consolidation(TaskFocusedConsolidation):
    """An epoch without replay has room for new examples. Once these are known, the room is worth more to old ones."""

    options: ClassVar = (
        *TaskFocusedConsolidation.options,
        Option("consolidate_at", float, 95.0, AT, low=0, high=100),
    )
    hooks = ("answered",)
    outside_step = (*TaskFocusedConsolidation.outside_step, "knows_new")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        # Of an epoch's new examples. As tensors that are changed in place: a recorded step goes on counting in them.
        self.asked, self.right = (torch.zeros((), dtype=torch.int64, device=learner.device) for _ in range(2))
        self.knows_new = False
        self.known = torch.zeros(learner.classes, dtype=torch.bool, device=learner.device)

    def _counts(self) -> bool:
        return self.spec.consolidate_at > 0 and self._replays_due()

    def begin_task(self, task: "Task") -> None:
        super().begin_task(task)
        self.knows_new = False
        self.known[list(task.classes)] = True

    def replays(self, task: "Task", epoch: int) -> bool:
        return super().replays(task, epoch) or (task.number > 1 and self.knows_new)

    def answered(self, right: "Tensor", asked: int) -> None:
        """For the loss to call: of so many new examples of a batch, how many the network tells right."""
        if self._counts():
            self.right += right
            self.asked += asked

    def predict(self, x: "Tensor") -> "Tensor":
        """What has not come yet is no answer; where nothing has, all are as good."""
        return super().predict(x).masked_fill(~self.known & self.known.any(), NEVER)

    def end_epoch(self, task: "Task", epoch: int) -> bool:
        if self._counts():
            right, asked = torch.stack([self.right, self.asked]).tolist()
            self.knows_new = 100 * right >= self.spec.consolidate_at * max(1, asked)
            self.right.zero_()
            self.asked.zero_()
        return super().end_epoch(task, epoch)
