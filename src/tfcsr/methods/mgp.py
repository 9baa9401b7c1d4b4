"""Mastery-gated progression: a task is trained until it is mastered and the buffer is still recalled."""

from tfcsr.data.tasks import Task
from tfcsr.methods import METHODS
from tfcsr.methods.er import ExperienceReplay
from tfcsr.recall.probe import Recall


@METHODS.add("mgp")
class MasteryGatedProgression(ExperienceReplay):
    def epochs(self) -> int:
        return self.spec.max_epochs

    def replays(self, task: Task, epoch: int) -> bool:
        return task.number > 1

    def end_epoch(self, task: Task, epoch: int) -> bool:
        gate = task.held_out if self.spec.gate_data == "held-out" else task.test
        mastery = self.learner.accuracy(gate)
        mastered = mastery >= self.spec.mastery_threshold
        recall = Recall(100.0, {})  # in the first task there is nothing to retain yet
        if task.number > 1 and self.spec.probe_mode != "none":
            recall = self.learner.recall(task.number, epoch)
        passed = mastered and recall.overall >= self.spec.retention_threshold
        if task.number > 1 and self.spec.probe_mode != "none":
            last = passed or epoch == self.spec.max_epochs
            self.learner.record_probe(task.number, epoch, recall, passed, None if last else epoch + 1)
        return passed
