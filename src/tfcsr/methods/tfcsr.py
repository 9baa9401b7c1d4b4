"""TFC-SR: experience replay, and a probe of the memory on an adaptive, spaced schedule."""

from typing import TYPE_CHECKING, Any, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import PROBE, SCHEDULE, Mix
from tfcsr.methods.er import ExperienceReplay
from tfcsr.recall.agenda import Agenda
from tfcsr.recall.schedule import SCHEDULES

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

# Replayed examples come in eighths of a batch: batches of few shapes.
PARTS = 8


@METHODS.add("tfcsr")
class TaskFocusedConsolidation(ExperienceReplay):
    """What is due in an epoch is asked for after it. With `replay_epochs due` it is also what that epoch replays: the
    schedule says in which epochs, of which classes and, by their share of the old ones, how many examples.
    """

    options: ClassVar = (*ExperienceReplay.options, *SCHEDULE, *PROBE)
    hooks = ("probes",)
    outside_step: ClassVar[tuple[str, ...]] = ("schedule", "due", "among")
    style = ("#D55E00", "--")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        schedule = SCHEDULES.get(self.spec.schedule)(**self.spec.options_of(SCHEDULES, self.spec.schedule))
        self.agenda = Agenda(schedule, by_class=self.spec.schedule_per == "class", least=self.spec.replay_least)
        self.due: list[int] | None = []  # in this epoch: some classes, or None, the memory as a whole
        self.among: list[int] = []  # the classes it replays, where these are some

    def begin_task(self, task: "Task") -> None:
        super().begin_task(task)
        old = [label for label in self.learner.classes_kept().tolist() if label not in task.classes]
        asks = self.agenda.schedule.relative and old and self.spec.probe_mode in ("eval", "train")
        moment = f"probe/{task.number}/0"
        self.agenda.begin_task(old, self.learner.ask(moment, self.spec.probe_size) if asks else None)

    def mix(self, task: "Task", epoch: int) -> Mix:
        self.due = self.agenda.due(epoch)
        # Those that arrive, too: or nothing would tell the new ones from the old.
        self.among = [*self.due, *task.classes] if self.due and self._replays_due() else []
        mix = super().mix(task, epoch)
        if not (mix.replay and self.due and self.among):
            return mix
        part = max(1, self.spec.batch_size // PARTS)
        wanted = -(-mix.replay * len(self.due) // len(self.agenda.classes) // part) * part
        replay = min(mix.replay, wanted, len(self._positions(self.among)))
        new = mix.new + mix.replay - replay
        return Mix(new, replay, mix.stride if self.spec.new_data == "half" else new)

    def draw(self, batches: int, replay: int) -> "Tensor":
        self.agenda.batches += batches if replay else 0
        among = self._positions(self.among) if self.among else None
        return self.learner.buffer.draw(batches, replay, self.learner.generators["replay"], among)

    def _positions(self, classes: list[int]) -> "Tensor":
        """Where in the buffer the examples of these classes lie."""
        labels = self.learner.buffer.y[: len(self.learner.buffer)]
        return torch.isin(labels, torch.tensor(classes, device=labels.device)).nonzero().squeeze(1)

    def _replays_due(self) -> bool:
        return bool(self.spec.replay_epochs == "due")

    def replays(self, task: "Task", epoch: int) -> bool:
        if not self._replays_due():
            return super().replays(task, epoch)
        due = self.due is None or len(self._positions(self.due)) > 0
        return task.number > 1 and (due or self.agenda.behind(epoch, self.passes(len(task.train))))

    def probes(self, task: "Task", epoch: int) -> bool:
        """Whether the memory is asked after this epoch."""
        return self.due != [] and len(self.learner.asked) > 0

    def end_epoch(self, task: "Task", epoch: int) -> bool:
        if self.probes(task, epoch):
            asked = self.spec.probe_mode != "none"  # if nobody asks, what goes by the schedule goes on: as if it passed
            recall = self.learner.recall(task.number, epoch) if asked else None
            passed, next_epoch = self.agenda.review(self.due, epoch, recall)
            if recall is not None:
                self.learner.record_probe(task.number, epoch, recall, passed, next_epoch)
        self.agenda.end_epoch()
        return False

    def state_dict(self) -> dict[str, Any]:
        own = super().state_dict()
        return {name: own[name] for name in own if name != "agenda"} | {"schedule": self.agenda.to_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name != "schedule"})
        self.agenda.load(state["schedule"])
