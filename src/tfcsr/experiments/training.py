"""A learner led through a benchmark: the tasks of its sequence, and an evaluation after each."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples, Task, TaskSequence
from tfcsr.data.views import Views
from tfcsr.errors import SpecError
from tfcsr.metrics import pooled_accuracy
from tfcsr.spec import RunSpec
from tfcsr.training.events import Events, Listener
from tfcsr.training.loop import Loop, build_model


class Training(Loop):
    """A run under way: all that changes is in `state_dict`, and `run` goes on from wherever that stands."""

    def __init__(self, spec: RunSpec, dataset: Dataset, listeners: Iterable[Listener] = ()) -> None:
        self.tasks = TaskSequence(
            dataset,
            spec.tasks,
            spec.class_order,
            spec.device,
            scenario=spec.scenario,
            repeat=spec.repeat,
            change=BENCHMARKS.get(spec.benchmark).change,
            max_per_class=spec.max_per_class,
        )
        self.tasks.require_held_out(spec.held_out)
        self.class_names = self.tasks.class_names
        shape, classes = dataset.train_x.shape[1:], len(self.class_names)
        views = Views.of(dataset, spec.device, unit=spec.pixels == "unit")
        super().__init__(spec, build_model(spec, shape, classes), views, shape, classes, Events(listeners))
        if spec.scenario == "task":
            self.learner.task_of = self.tasks.task_of()
        sizes = self.tasks.train_sizes
        self.make_room(
            sum(sizes) if self.method.sees_all_tasks else max(sizes),
            spec.steps * len(sizes) or self.method.epochs() * sum(sizes) / spec.batch_size,
        )
        self.untrained: list[float] = []
        # As arrays: with a thousand tasks these are a million numbers each, and saved again and again.
        self.accuracy_matrix: list[array[float]] = []
        self.class_accuracy: list[array[float]] = []
        self.recall_asked: list[array[int]] = []
        self.recall_right: list[array[int]] = []
        self.held_out_accuracy: float | None = None
        self.collapsed: int | None = None

    def run(self, boundary: Callable[[], None] = lambda: None) -> None:
        for _ in self.advance(boundary):
            pass

    def advance(self, boundary: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Train on every task that is left, and evaluate after each. See `Loop.learn`."""
        if not self.model.training:  # else each module stays as it was made: one may be frozen
            self.model.train()
        if not self.untrained:
            self.untrained, _ = self._accuracies(self._predict())
            self.events.emit(
                "run_started",
                spec=self.spec.to_dict(),
                tasks=[list(c) for c in self.tasks.classes],
                class_names=list(self.class_names),
                epochs=self.epochs_of(self.tasks.train_sizes[0]),
            )
        else:
            epochs = self.epochs_of(self.tasks.train_sizes[self.task_number - 1])
            self.events.emit("run_resumed", task=self.task_number, epoch=self.epoch, epochs=epochs)
        while self.task_number <= len(self.tasks):
            task = self._task(self.task_number)
            yield from self.learn(task, self._training_data(task), boundary)
            started = time.perf_counter()
            logits = self._predict()
            yield
            self._end_task(task, logits)
            self.seconds += time.perf_counter() - started
        self.held_out_accuracy = self._accuracy_on_held_out()
        self.events.emit("run_finished", seconds=self.seconds)

    def _end_task(self, task: Task, logits: Tensor) -> None:
        row, constant = self._accuracies(logits, task.number)
        self.accuracy_matrix.append(array("d", row))
        self.class_accuracy.append(array("d", self._class_accuracies(logits)))
        self._ask_memory(task)
        accuracy = pooled_accuracy(row, self.tasks.test_sizes, task.number)
        self.events.emit("task_finished", task=task.number, epochs=self.epoch, accuracy=accuracy, row=row)
        if constant and self.collapsed is None:
            self.collapsed = task.number
            self.events.emit("collapsed", task=task.number)
        self.next_task()

    def _ask_memory(self, task: Task) -> None:
        """What the memory alone says of each class: beside the test data, to see how far it can be believed."""
        if not self.learner.has_buffer:
            return
        asked, right = [0] * self.learner.classes, [0] * self.learner.classes
        if len(self.learner.asked):
            recall = self.learner.ask(f"recall/{task.number}")
            for label, count in recall.asked.items():
                asked[label], right[label] = count, round(recall.per_class[label] * count / 100)
        self.recall_asked.append(array("q", asked))
        self.recall_right.append(array("q", right))

    def _accuracies(self, logits: Tensor, seen: int = 0) -> tuple[list[float], bool]:
        """Accuracy on each task's test set; and whether the network died: after `seen` tasks it answers all the same.

        With one class a task, always naming the newest is mere forgetting, and where the task is told, it is an answer
        of each task's own; then the logits themselves must not move.
        """
        chosen = self.learner.answers(logits, self.tasks.test.y)
        right = (chosen == self.tasks.test.y).split(self.tasks.test_sizes)
        correct = torch.stack([part.sum() for part in right]).tolist()
        row = [100 * count / size for count, size in zip(correct, self.tasks.test_sizes, strict=True)]
        asked = sum(self.tasks.test_sizes[:seen])
        constant = False
        if sum(len(classes) for classes in self.tasks.classes[:seen]) > 1:
            if len(self.tasks.classes[seen - 1]) > 1 and self.learner.task_of is None:
                constant = len(chosen[:asked].unique()) == 1
            else:
                constant = bool((logits[:asked] == logits[0]).all())
        return row, constant

    def _predict(self) -> Tensor:
        """The method's answers to all test examples."""
        found = self.method.predict(self.tasks.test.x)
        if found.shape != (len(self.tasks.test), self.learner.classes):
            raise SpecError(
                f"{self.spec.method} with model {self.spec.model} gives {tuple(found.shape)[1:]} scores for an example:"
                f" it must give one for each of {self.learner.classes} classes"
            )
        return found

    def _class_accuracies(self, logits: Tensor) -> list[float]:
        y, classes = self.tasks.test.y, logits.shape[1]
        right = torch.bincount(y[self.learner.answers(logits, y) == y], minlength=classes).tolist()
        asked = torch.bincount(y, minlength=classes).tolist()
        return [100 * r / max(n, 1) for r, n in zip(right, asked, strict=True)]

    def _accuracy_on_held_out(self) -> float | None:
        if self.spec.held_out == 0:
            return None
        return self.learner.accuracy(self.tasks.held_out(self.spec.held_out, self.spec.seed))

    def _task(self, number: int) -> Task:
        return self.tasks.task(number, self.spec.held_out, self.spec.seed)

    def _training_data(self, task: Task) -> Examples:
        if self.method.sees_all_tasks:
            parts = [self._task(number).train for number in range(1, task.number + 1)]
            return Examples(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))
        return task.train if self.spec.new_task == "current" else self._task(len(self.tasks)).train

    _PROGRESS: ClassVar[tuple[str, ...]] = (*Loop._PROGRESS, "untrained", "collapsed")

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "accuracy_matrix": torch.from_numpy(np.array(self.accuracy_matrix, dtype=np.float64)),
            "class_accuracy": torch.from_numpy(np.array(self.class_accuracy, dtype=np.float64)),
            "recall_asked": torch.from_numpy(np.array(self.recall_asked, dtype=np.int64)),
            "recall_right": torch.from_numpy(np.array(self.recall_right, dtype=np.int64)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.accuracy_matrix = [array("d", row) for row in state["accuracy_matrix"].tolist()]
        self.class_accuracy = [array("d", row) for row in state["class_accuracy"].tolist()]
        for name in ("recall_asked", "recall_right"):
            # Since 0.4.0. Before, nobody asked.
            unknown = [[0] * self.learner.classes] * (self.task_number - 1 if self.learner.has_buffer else 0)
            setattr(self, name, [array("q", row) for row in (state[name].tolist() if name in state else unknown)])
        done = self.task_number - 1
        tasks = len(self.tasks)
        if not (0 <= done < tasks and len(self.epochs_per_task) == done and self.epoch > 0):
            raise ValueError(f"task {self.task_number} of {tasks} and epoch {self.epoch} cannot be")
        classes = len(self.class_names)
        for matrix, width in ((self.accuracy_matrix, tasks), (self.class_accuracy, classes)):
            if len(self.untrained) != tasks or len(matrix) != done or any(len(row) != width for row in matrix):
                raise ValueError(f"accuracies of other than {tasks} tasks and {classes} classes")
