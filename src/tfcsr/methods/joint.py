"""Training on the data of all tasks so far: the upper bound, which keeps everything."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method, Mix
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner


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
    outside_step = ("seen",)
    style = ("#000000", ":")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.seen = 0

    def begin_task(self, task: "Task") -> None:
        self.seen += len(task.train)

    def mix(self, task: "Task", epoch: int) -> Mix:
        mix = super().mix(task, epoch)
        if self.spec.joint_epoch == "all":
            return mix
        return Mix(mix.new, mix.replay, max(mix.new, mix.stride * self.seen // max(1, len(task.train))))

    def load_state_dict(self, state: "dict[str, object]") -> None:
        super().load_state_dict({"seen": 0} | state)  # which version 0.3.0 did not count
