"""TFC-SR: experience replay, and a probe of the buffer on an adaptive, spaced schedule."""

from typing import TYPE_CHECKING, Any, ClassVar

from tfcsr.methods import METHODS
from tfcsr.methods.base import PROBE
from tfcsr.methods.er import ExperienceReplay
from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES, ScheduleState

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner


@METHODS.add("tfcsr")
class TaskFocusedConsolidation(ExperienceReplay):
    options: ClassVar = (
        *ExperienceReplay.options,
        Option("schedule", str, "expanding", "when the next probe is due", choices=SCHEDULES),
        *PROBE,
    )
    hooks = ("probes",)
    outside_step = ("schedule",)
    style = ("#D55E00", "--")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        chosen = SCHEDULES.get(self.spec.schedule)
        self.schedule = chosen(**self.spec.options_of(SCHEDULES, self.spec.schedule))
        self.state = self.schedule.start()

    def begin_task(self, task: "Task") -> None:
        super().begin_task(task)
        self.state = self.schedule.start()

    def probes(self, task: "Task", epoch: int) -> bool:
        """Whether the buffer is asked after this epoch."""
        return epoch == self.state.next_epoch and len(self.learner.buffer) > 0

    def end_epoch(self, task: "Task", epoch: int) -> bool:
        if not self.probes(task, epoch):
            return False
        if self.spec.probe_mode == "none":  # nobody asks, but what goes by the schedule goes on: as if it had passed
            self.state, _ = self.schedule.review(self.state, 100.0)
            return False
        recall = self.learner.recall(task.number, epoch)
        self.state, passed = self.schedule.review(self.state, recall.overall)
        self.learner.record_probe(task.number, epoch, recall, passed, self.state.next_epoch)
        return False

    def state_dict(self) -> dict[str, Any]:
        own = super().state_dict()
        del own["schedule"], own["state"]
        return own | {"schedule": self.state.to_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name != "schedule"})
        self.state = ScheduleState.from_dict(state["schedule"])
