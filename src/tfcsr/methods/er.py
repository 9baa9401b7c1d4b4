"""Experience replay: half of every batch is drawn from the buffer."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import BUFFER, REPLAY, Method, Mix, exam_capacity
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.spec import RunSpec


@METHODS.add("er")
class ExperienceReplay(Method):
    options: ClassVar[tuple[Option, ...]] = (*BUFFER, *REPLAY)
    hooks = ("replays",)
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

    def begin_task(self, task: "Task") -> None:
        if self.spec.buffer_fill == "before":
            self.learner.remember(task.train)

    def mix(self, task: "Task", epoch: int) -> Mix:
        batch, held = self.spec.batch_size, len(self.learner.buffer)
        old = self.spec.replay_per_batch or batch // 2
        replays = held > 0 and self.replays(task, epoch)
        if not replays and (held == 0 or self.spec.unmixed == "full"):
            return super().mix(task, epoch)
        new = batch - old
        return Mix(
            new=new,
            replay=min(old, held) if replays else 0,
            stride=batch if self.spec.new_data == "half" else new,
        )

    def replays(self, task: "Task", epoch: int) -> bool:
        """Whether this epoch's batches are mixed."""
        listed = self.spec.replay_epochs
        return listed == "all" or (listed != "none" and str(epoch) in listed.split(","))

    def end_task(self, task: "Task") -> None:
        if self.spec.buffer_fill == "after":
            self.learner.remember(task.train)
