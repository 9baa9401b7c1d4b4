"""What is due when: a schedule kept for the memory as a whole, or for each class. No clock, no I/O, no torch."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfcsr.errors import SpecError
from tfcsr.recall.schedule import Schedule, ScheduleState

if TYPE_CHECKING:
    from tfcsr.recall.probe import Recall


class Agenda:
    """The memory as a whole begins anew with each task, as in the paper. A class is on the agenda from the first task
    after its own on, and its time goes on from task to task.

    A schedule that goes by retention is fed with what is left of the recall there was when the task began.

    Beside what is due, a task has at least so many batches of replay.
    """

    def __init__(self, schedule: Schedule, *, by_class: bool = False, least: int = 0) -> None:
        self.schedule = schedule
        self.by_class = by_class
        self.least = least
        self.batches = 0  # of replay, in this task
        self.memory = schedule.start()
        self.classes: dict[int, ScheduleState] = {}
        self.epochs = 0  # of all tasks
        self._whole: dict[int, float] = {}  # the recall of each class when the task began

    def begin_task(self, old: Iterable[int], recall: "Recall | None" = None) -> None:
        """With the classes of earlier tasks and, for a schedule that goes by retention, what is recalled of them."""
        self.memory = self.schedule.start()
        self.batches = 0
        known = list(old)
        for label in known if self.by_class else ():
            self.classes.setdefault(label, self.schedule.start(self.epochs))
        found = {} if recall is None else recall.per_class
        self._whole = {label: found[label] for label in known if label in found}

    def due(self, epoch: int) -> list[int] | None:
        """The classes that are due in this epoch of the task, from 1; None: the memory as a whole."""
        if not self.by_class:
            return None if epoch == self.memory.next_epoch else []
        return [label for label, state in self.classes.items() if state.next_epoch <= self.epochs + 1]

    def behind(self, epoch: int, of: int) -> bool:
        """Whether a task of so many epochs would have too little replay by the end of this one."""
        return self.batches < self.least * min(1.0, epoch / of)

    def end_epoch(self) -> None:
        self.epochs += 1

    def review(self, due: list[int] | None, epoch: int, recall: "Recall | None") -> tuple[bool, int]:
        """After an epoch, with what is due in it and what was recalled; None: as if all had passed. Whether all has
        passed, and the epoch of this task in which something is due again.
        """
        if due is None:
            self.memory, passed = self.schedule.review(self.memory, self._answer(recall, list(self._whole), True))
            return passed, self.memory.next_epoch
        answers = []
        for label in due:
            # Asked late, it counts from now on.
            state = dataclasses.replace(self.classes[label], next_epoch=self.epochs + 1)
            self.classes[label], passed = self.schedule.review(state, self._answer(recall, [label], False))
            answers.append(passed)
        return all(answers), min(state.next_epoch for state in self.classes.values()) - self.epochs - 1 + epoch

    def _answer(self, recall: "Recall | None", labels: list[int], memory: bool) -> float:
        """Recall or retention of these classes; where nothing was asked of them, of the memory as a whole."""
        if recall is None:
            return 100.0
        if not self.schedule.relative:
            own = None if memory else recall.of(labels)
            return recall.overall if own is None else own
        compared = [label for label in self._whole if label in recall.asked]
        labels = [label for label in labels if label in compared] or compared
        # Of each class then and now by the same weight: a probe that asks for more of one shows no loss by that.
        now, asked = recall.of(labels), sum(recall.asked[label] for label in labels)
        whole = sum(self._whole[label] * recall.asked[label] for label in labels) / max(1, asked)
        return 100.0 if now is None or whole == 0 else min(100.0, 100 * now / whole)

    def to_dict(self) -> dict[str, Any]:
        more = {
            "epochs": self.epochs,
            "batches": self.batches,
            "classes": {str(label): state.to_dict() for label, state in self.classes.items()},
            "whole": {str(label): found for label, found in self._whole.items()},
        }
        return self.memory.to_dict() | more

    def load(self, values: Mapping[str, Any]) -> None:
        """Take back what `to_dict` gave. A ValueError says what is none of it."""
        try:
            self.memory = self.schedule.read(values)
            kept = values.get("classes", {})  # this and the rest since 0.4.0
            self.classes = {int(label): self.schedule.read(state) for label, state in kept.items()}
            self.epochs = values.get("epochs", 0)
            self.schedule.start(self.epochs)  # which refuses what is no number of epochs
            self.batches = values.get("batches", 0)
            whole = values.get("whole", {}).items()
            self._whole = {int(label): float(value) for label, value in whole}
        except (SpecError, AttributeError, TypeError, OverflowError) as error:
            raise ValueError(str(error)) from None
        if not isinstance(self.batches, int) or self.batches < 0:
            raise ValueError(f"{self.batches!r} is no number of replay batches")
        if not all(0 <= value <= 100 for value in self._whole.values()):
            raise ValueError("a recall outside 0..100 percent, or of no examples")
