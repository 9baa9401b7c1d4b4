"""TFC-SR: experience replay, and a probe of the buffer on an adaptive, spaced schedule."""

from typing import Any

from tfcsr.data.tasks import Task
from tfcsr.methods import METHODS
from tfcsr.methods.base import Learner
from tfcsr.methods.er import ExperienceReplay
from tfcsr.recall.schedule import ScheduleState


@METHODS.add("tfcsr")
class TaskFocusedConsolidation(ExperienceReplay):
    outside_step = ("schedule",)

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.schedule = self.spec.recall_schedule()
        self.state = self.schedule.start()

    def begin_task(self, task: Task) -> None:
        super().begin_task(task)
        self.state = self.schedule.start()

    def probes(self, task: Task, epoch: int) -> bool:
        return self.spec.probe_mode != "none" and epoch == self.state.next_epoch and len(self.learner.buffer) > 0

    def end_epoch(self, task: Task, epoch: int) -> bool:
        if self.probes(task, epoch):
            recall = self.learner.recall(task.number, epoch)
            self.state, passed = self.schedule.review(self.state, recall.overall)
            self.learner.record_probe(task.number, epoch, recall, passed, self.state.next_epoch)
        return False

    def state_dict(self) -> dict[str, Any]:
        return {"schedule": self.state.to_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = ScheduleState.from_dict(state["schedule"])
