"""Experience replay: half of every batch is drawn from the buffer."""

from tfcsr.data.tasks import Task
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method, Mix


@METHODS.add("er")
class ExperienceReplay(Method):
    uses_buffer = True

    def begin_task(self, task: Task) -> None:
        if self.spec.buffer_fill == "before":
            self.learner.remember(task.train)

    def mix(self, task: Task, epoch: int) -> Mix:
        batch, half = self.spec.batch_size, self.spec.batch_size // 2
        if len(self.learner.buffer) == 0 or not self.replays(task, epoch):
            return super().mix(task, epoch)
        new = batch - half
        return Mix(
            new=new,
            replay=min(half, len(self.learner.buffer)),
            stride=batch if self.spec.new_data == "half" else new,
        )

    def replays(self, task: Task, epoch: int) -> bool:
        """Whether this epoch's batches are mixed."""
        return True

    def end_task(self, task: Task) -> None:
        if self.spec.buffer_fill == "after":
            self.learner.remember(task.train)
