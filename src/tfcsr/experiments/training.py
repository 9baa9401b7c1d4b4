"""A learner led through a benchmark: the tasks of its sequence, and evaluations in between."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
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

# What is known after each task, by the type of its numbers in an array.
_TABLES = {"accuracy_matrix": "d", "class_accuracy": "d", "recall_asked": "q", "recall_right": "q"}


@dataclass(frozen=True)
class _Answers:
    """To all test examples: the class chosen, whether it is the right one, and whether the scores of all classes are
    the very same as for the first example, where that is asked.
    """

    chosen: Tensor
    right: Tensor
    still: Tensor | None


class Training(Loop):
    """A run under way: all that changes is in `state_dict`, and `run` goes on from wherever that stands."""

    def __init__(
        self, spec: RunSpec, dataset: Dataset, listeners: Iterable[Listener] = (), folder: Path | None = None
    ) -> None:
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
        super().__init__(
            spec, build_model(spec, shape, classes), views, shape, classes, Events(listeners), folder=folder
        )
        if spec.scenario == "task":
            self.learner.task_of = self.tasks.task_of()
        sizes = self.tasks.train_sizes
        self.make_room(
            sum(sizes) if self.method.sees_all_tasks else max(sizes),
            spec.steps * len(sizes) or self.method.epochs() * sum(sizes) / spec.batch_size,
        )
        self.untrained: list[float] = []
        # As arrays: with a thousand tasks these are a million numbers each, and saved again and again. One for each
        # task; None where the task was not evaluated.
        self.accuracy_matrix: list[array[float] | None] = []
        self.class_accuracy: list[array[float] | None] = []
        self.recall_asked: list[array[int] | None] = []
        self.recall_right: list[array[int] | None] = []
        self.held_out_accuracy: float | None = None
        self.collapsed: int | None = None

    def run(self, boundary: Callable[[], None] = lambda: None) -> None:
        for _ in self.advance(boundary):
            pass

    def advance(self, boundary: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Train on every task that is left, and evaluate as often as the spec says. See `Loop.learn`."""
        if not self.model.training:  # else each module stays as it was made: one may be frozen
            self.model.train()
        if not self.untrained:
            self.untrained = self._accuracies(self._predict().right)
            self.events.emit(
                "run_started",
                spec=self.spec.to_dict(),
                tasks=[list(c) for c in self.tasks.classes],
                class_names=list(self.class_names),
                epochs=self.method.passes(self.tasks.train_sizes[0]),
            )
        else:
            epochs = self.method.passes(self.tasks.train_sizes[self.task_number - 1])
            self.events.emit("run_resumed", task=self.task_number, epoch=self.epoch, epochs=epochs)
        while self.task_number <= len(self.tasks):
            task = self._task(self.task_number)
            yield from self.learn(task, self._training_data(task), boundary)
            started = time.perf_counter()
            found = None
            if self._is_evaluated(task.number):
                found = self._predict(task.number)
                yield from self._caught_up()
            self._end_task(task, found)
            self.seconds += time.perf_counter() - started
        self.held_out_accuracy = self._accuracy_on_held_out()
        self.events.emit("run_finished", seconds=self.seconds)

    def _is_evaluated(self, task: int) -> bool:
        return task % self.spec.evaluate_every == 0 or task == len(self.tasks)

    def _end_task(self, task: Task, found: "_Answers | None") -> None:
        """Note what is known now; or that nobody has asked."""
        if found is None:
            for name in _TABLES:
                if self.learner.has_buffer or not name.startswith("recall"):
                    getattr(self, name).append(None)
            self.events.emit("task_finished", task=task.number, epochs=self.epoch, accuracy=None, row=None)
        else:
            row = self._accuracies(found.right)
            self.accuracy_matrix.append(array("d", row))
            self.class_accuracy.append(array("d", self._class_accuracies(found.right)))
            self._ask_memory(task)
            accuracy = pooled_accuracy(row, self.tasks.test_sizes, task.number)
            self.events.emit("task_finished", task=task.number, epochs=self.epoch, accuracy=accuracy, row=row)
            if self.collapsed is None and self._is_constant(found, task.number):
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

    def _accuracies(self, right: Tensor) -> list[float]:
        """Accuracy on each task's test set, by which of all test examples are answered right."""
        sizes = self.tasks.test_sizes
        # In one pass: a sum for each of thousands of tasks would take longer than asking.
        known = np.cumsum(right.cpu().numpy())
        correct = np.diff(known[np.cumsum(sizes) - 1], prepend=0).tolist()
        return [100 * count / size for count, size in zip(correct, sizes, strict=True)]

    def _is_constant(self, found: "_Answers", seen: int) -> bool:
        """Whether the network died: after `seen` tasks it answers all the same."""
        asked = sum(self.tasks.test_sizes[:seen])
        if sum(len(classes) for classes in self.tasks.classes[:seen]) <= 1:
            return False
        if found.still is not None:
            return bool(found.still[:asked].all())
        return len(found.chosen[:asked].unique()) == 1

    def _predict(self, seen: int = 0) -> "_Answers":
        """The method's answers to all test examples, after `seen` tasks."""
        test, classes = self.tasks.test, self.learner.classes
        # With one class a task, always naming the newest is mere forgetting, and where the task is told, it is an
        # answer of each task's own; then the scores themselves must not move.
        by_scores = seen > 0 and (len(self.tasks.classes[seen - 1]) == 1 or self.learner.task_of is not None)
        chosen, still = [], []
        first: Tensor | None = None
        rows = self.learner.rows_at_once
        for x, y in zip(test.x.split(rows), test.y.split(rows), strict=True):
            scores = self.method.predict(x)
            if scores.shape != (len(x), classes):
                raise SpecError(
                    f"{self.spec.method} with model {self.spec.model} gives {tuple(scores.shape)[1:]} scores for an"
                    f" example: it must give one for each of {classes} classes"
                )
            chosen.append(self.learner.answers(scores, y))
            if by_scores:
                first = scores[:1].clone() if first is None else first
                still.append((scores == first).all(dim=1))
        found = torch.cat(chosen)
        return _Answers(found, found == test.y, torch.cat(still) if still else None)

    def _class_accuracies(self, right: Tensor) -> list[float]:
        y, classes = self.tasks.test.y, self.learner.classes
        correct = torch.bincount(y[right], minlength=classes).tolist()
        asked = torch.bincount(y, minlength=classes).tolist()
        return [100 * r / max(n, 1) for r, n in zip(correct, asked, strict=True)]

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
            # Of the tasks that were evaluated, which the spec says.
            name: torch.from_numpy(np.array([row for row in getattr(self, name) if row is not None], dtype=code))
            for name, code in _TABLES.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        done = self.task_number - 1
        tasks = len(self.tasks)
        if not (0 <= done < tasks and len(self.epochs_per_task) == done and self.epoch > 0):
            raise ValueError(f"task {self.task_number} of {tasks} and epoch {self.epoch} cannot be")
        if len(self.untrained) != tasks:
            raise ValueError(f"accuracies of other than {tasks} tasks")
        evaluated = [self._is_evaluated(number) for number in range(1, done + 1)]
        for name, code in _TABLES.items():
            of_memory = name.startswith("recall")
            there = [] if of_memory and not self.learner.has_buffer else evaluated
            width = tasks if name == "accuracy_matrix" else self.learner.classes
            # Since 0.4.0. Before, nobody asked the memory.
            unknown = of_memory and name not in state
            rows = [[0] * width] * sum(there) if unknown else state[name].tolist()
            if len(rows) != sum(there) or any(len(row) != width for row in rows):
                raise ValueError(f"accuracies of other than {tasks} tasks and {self.learner.classes} classes")
            found = iter(rows)
            setattr(self, name, [array(code, next(found)) if known else None for known in there])
