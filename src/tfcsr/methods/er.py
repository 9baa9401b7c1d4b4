"""Experience replay: half of every batch is drawn from the buffer."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.errors import SpecError
from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import BUFFER, REPLAY, Batch, Method, Mix, exam_capacity, is_listed
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner
    from tfcsr.spec import RunSpec

WEIGHTING = (
    "loss of a mixed batch. `examples`: the mean over all its examples. `tasks`: at task k, 1/k times the mean over new"
    " examples plus 1 - 1/k times the mean over replayed ones"
)
# Of every method that replays, whatever its loss.
WITHOUT_WEIGHTING = (*BUFFER, *REPLAY)


@METHODS.add("er")
class ExperienceReplay(Method):
    options: ClassVar[tuple[Option, ...]] = (
        *WITHOUT_WEIGHTING,
        Option("weighting", str, "examples", WEIGHTING, choices=("examples", "tasks")),
    )
    hooks = ("replays",)
    scenarios: ClassVar[tuple[str, ...]] = ("class", "domain", "task")
    style = ("#0072B2", "-")
    baseline = 2

    @classmethod
    def check(cls, spec: "RunSpec") -> None:
        kept = spec.buffer_capacity - exam_capacity(spec)
        if spec.protocol == "paper" and kept < spec.batch_size // 2:
            raise SpecError(
                f"buffer_capacity {kept} is below half a batch ({spec.batch_size // 2}): the paper's"
                f" protocol would skip every batch; take a larger buffer, smaller batches or protocol default"
            )
        if spec.replay_per_batch >= spec.batch_size:
            raise SpecError(
                f"replay_per_batch {spec.replay_per_batch} leaves no room for new examples in a batch of"
                f" {spec.batch_size}: use 0..{spec.batch_size - 1}"
            )
        if spec.get("replay_epochs") == "due" and spec.get("schedule") is None:
            raise SpecError(f"replay_epochs due: {spec.method} has no schedule; use all, none or a list like 1,3,5")
        if spec.exam_share and spec.get("new_task") == "last":
            raise SpecError("exam_share sets examples of the current task aside: with new_task last, use 0")
        if spec.augment == "strong" and spec.replay_view == "frozen":
            raise SpecError("replay_view frozen keeps a shifted and mirrored view: use augment crop-flip, or fresh")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        if self._by_tasks():  # as a tensor that is changed in place: a recorded step goes on reading it
            self.task_number = torch.ones((), device=learner.device)

    def _by_tasks(self) -> bool:
        return bool(self.spec.get("weighting") == "tasks")

    def begin_task(self, task: "Task") -> None:
        if self._by_tasks():
            self.task_number.fill_(task.number)
        if self.spec.buffer_fill == "before":
            self.learner.remember(task.train)

    def mix(self, task: "Task", epoch: int) -> Mix:
        batch, held = self.spec.batch_size, len(self.learner.buffer)
        old = self.spec.replay_per_batch or batch // 2
        replays = held > 0 and self.replays(task, epoch)
        full = self.spec.unmixed == "full" or (self.spec.unmixed == "later" and task.number == 1)
        if full and not replays:
            return super().mix(task, epoch)
        new = batch - old
        return Mix(
            new=new,
            replay=min(old, held) if replays else 0,
            stride=batch if self.spec.new_data == "half" else new,
        )

    def replays(self, task: "Task", epoch: int) -> bool:
        """Whether this epoch's batches are mixed."""
        return is_listed(self.spec.replay_epochs, task.number, epoch)

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        if not (batch.replayed and self._by_tasks()):
            return super().loss(batch, logits)
        each = torch.nn.functional.cross_entropy(self.within(logits, batch.y), batch.y, reduction="none")
        return each[: batch.new].mean() / self.task_number + (1 - 1 / self.task_number) * each[batch.new :].mean()

    def end_task(self, task: "Task") -> None:
        if self.spec.buffer_fill == "after":
            self.learner.remember(task.train)
