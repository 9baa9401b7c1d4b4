"""TFC-SR squared: replay, too, happens only in the epochs in which a probe is due, from the second task on."""

from typing import TYPE_CHECKING

from tfcsr.methods import METHODS
from tfcsr.methods.tfcsr import TaskFocusedConsolidation

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task


@METHODS.add("tfcsr-spaced")
class SpacedReplay(TaskFocusedConsolidation):
    style = ("#E69F00", "-.")

    def replays(self, task: "Task", epoch: int) -> bool:
        return task.number > 1 and epoch == self.state.next_epoch

    def probes(self, task: "Task", epoch: int) -> bool:
        return task.number > 1 and super().probes(task, epoch)
