"""Training on the data of all tasks so far: the upper bound, which keeps everything."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method, Mix
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task


@METHODS.add("joint")
class Joint(Method):
    options: ClassVar = (
        Option(
            "joint_epoch",
            str,
            "all",
            "an epoch passes over the data of `all` tasks so far, or takes as many steps as the `newest` task alone"
            " would, so that joint has the budget of the others",
            choices=("all", "newest"),
        ),
    )
    sees_all_tasks = True
    style = ("#000000", ":")

    def mix(self, task: "Task", epoch: int) -> Mix:
        mix = super().mix(task, epoch)
        newest = len(task.train) if self.spec.joint_epoch == "newest" else None
        return Mix(mix.new, mix.replay, mix.stride, newest)
