"""Experience replay: half of every batch is drawn from the buffer."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import BUFFER, Method, Mix
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.spec import RunSpec


@METHODS.add("er")
class ExperienceReplay(Method):
    options: ClassVar[tuple[Option, ...]] = (
        *BUFFER,
        Option(
            "buffer_fill",
            str,
            "before",
            "when a task's examples pass into the buffer: `before` it is trained on, so that replay holds some of them,"
            " or `after`",
            choices=("before", "after"),
        ),
        Option(
            "new_data",
            str,
            "all",
            "which new examples an epoch of mixed batches uses: `all`, or `half`, the paper's (of each batch drawn, the"
            " first half; the rest goes unused)",
            choices=("all", "half"),
            paper="half",
        ),
        Option(
            "replay_view",
            str,
            "fresh",
            "augmented replay: a `fresh` view each time, or the one `frozen` view that was stored, the paper's",
            choices=("fresh", "frozen"),
            paper="frozen",
        ),
    )
    hooks = ("replays",)
    style = ("#0072B2", "-")
    baseline = 2

    @classmethod
    def check(cls, spec: "RunSpec") -> None:
        if spec.protocol == "paper" and spec.buffer_capacity < spec.batch_size // 2:
            raise SpecError(
                f"buffer_capacity {spec.buffer_capacity} is below half a batch ({spec.batch_size // 2}): the paper's"
                f" protocol would skip every batch; take a larger buffer, smaller batches or protocol default"
            )

    def begin_task(self, task: "Task") -> None:
        if self.spec.buffer_fill == "before":
            self.learner.remember(task.train)

    def mix(self, task: "Task", epoch: int) -> Mix:
        batch, half = self.spec.batch_size, self.spec.batch_size // 2
        if len(self.learner.buffer) == 0 or not self.replays(task, epoch):
            return super().mix(task, epoch)
        new = batch - half
        return Mix(
            new=new,
            replay=min(half, len(self.learner.buffer)),
            stride=batch if self.spec.new_data == "half" else new,
        )

    def replays(self, task: "Task", epoch: int) -> bool:
        """Whether this epoch's batches are mixed."""
        return True

    def end_task(self, task: "Task") -> None:
        if self.spec.buffer_fill == "after":
            self.learner.remember(task.train)
