"""TFC-SR squared: replay, too, happens only in the epochs in which a probe is due, from the second task on."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.methods import METHODS
from tfcsr.methods.tfcsr import TaskFocusedConsolidation

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task


@METHODS.add("tfcsr-spaced")
class SpacedReplay(TaskFocusedConsolidation):
    # Which epochs replay is what makes it a method of its own.
    options: ClassVar = tuple(o for o in TaskFocusedConsolidation.options if o.name != "replay_epochs")
    style = ("#E69F00", "-.")

    def _replays_due(self) -> bool:
        return True

    def probes(self, task: "Task", epoch: int) -> bool:
        return task.number > 1 and super().probes(task, epoch)
