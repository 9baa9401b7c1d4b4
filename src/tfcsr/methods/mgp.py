"""Mastery-gated progression: a task is trained until it is mastered and the buffer is still recalled."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import PROBE
from tfcsr.methods.er import ExperienceReplay
from tfcsr.options import Option

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.spec import RunSpec


@METHODS.add("mgp")
class MasteryGatedProgression(ExperienceReplay):
    options: ClassVar = (
        *ExperienceReplay.options,
        Option("mastery_threshold", float, 85.0, "accuracy on the newest task to go on, in percent", low=0, high=100),
        Option("retention_threshold", float, 15.0, "recall of the buffer to go on, in percent", low=0, high=100),
        Option("max_epochs", int, 50, "the most epochs on a task, mastered or not", low=1, high=10**6),
        Option(
            "gate_data",
            str,
            "held-out",
            "mastery is measured on `held-out` training data, or on the `test` set as in the paper, which leaks",
            choices=("held-out", "test"),
            paper="test",
        ),
        *PROBE,
    )
    # It replays past tasks only; and no benchmark's threshold for probes is meant for its gate.
    defaults: ClassVar = {"mastery_threshold": 85.0, "buffer_fill": "after", "held_out": 0.1}
    style = ("#009E73", "-")

    @classmethod
    def check(cls, spec: "RunSpec") -> None:
        super().check(spec)
        if spec.get("steps"):
            raise SpecError(f"steps {spec.steps} is not for mgp, whose tasks end when mastered: use max_epochs")
        if spec.gate_data == "held-out" and spec.held_out == 0:
            raise SpecError("held_out 0 leaves mgp's gate nothing to measure on: raise it, or use gate_data test")

    def epochs(self) -> int:
        return int(self.spec.max_epochs)

    def replays(self, task: "Task", epoch: int) -> bool:
        return task.number > 1 and super().replays(task, epoch)

    def end_epoch(self, task: "Task", epoch: int) -> bool:
        gate = task.held_out if self.spec.gate_data == "held-out" else task.test
        mastered = bool(self.learner.accuracy(gate) >= self.spec.mastery_threshold)
        # Nothing to retain yet, or nobody asks.
        if task.number == 1 or self.spec.probe_mode == "none" or len(self.learner.asked) == 0:
            return mastered
        recall = self.learner.recall(task.number, epoch)
        passed = mastered and bool(recall.overall >= self.spec.retention_threshold)
        last = passed or epoch == self.spec.max_epochs
        self.learner.record_probe(task.number, epoch, recall, passed, None if last else epoch + 1)
        return passed
