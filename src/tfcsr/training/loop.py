"""The one training loop. Every method trains through it; `methods/base.py` lists where a method may differ."""

import hashlib
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples, Task, TaskSequence
from tfcsr.data.views import Views, require_croppable
from tfcsr.errors import DivergedError, SpecError
from tfcsr.generators import Generators, derived_seed, seeded
from tfcsr.methods import METHODS
from tfcsr.methods.learner import Learner
from tfcsr.metrics import pooled_accuracy
from tfcsr.models import MODELS
from tfcsr.spec import RunSpec
from tfcsr.training.batches import plan_epoch
from tfcsr.training.events import Events, Listener
from tfcsr.training.optimizers import make_optimizer, rates
from tfcsr.training.step import (
    COMPILE_FROM_STEPS,
    CapturedSteps,
    CudaCapture,
    PlainSteps,
    Step,
)

# A device takes only so many launches ahead: small turns keep every run's work in its queue.
STEPS_PER_TURN = 4


class Training:
    """A run under way: all that changes is in `state_dict`, and `run` goes on from wherever that stands."""

    def __init__(self, spec: RunSpec, dataset: Dataset, listeners: Iterable[Listener] = ()) -> None:
        self.spec = spec
        self.events = Events(listeners)
        device = torch.device(spec.device)
        shape = dataset.train_x.shape[1:]
        if spec.augment != "none":
            require_croppable(shape)
        self.tasks = TaskSequence(dataset, spec.tasks, spec.class_order, device, max_per_class=spec.max_per_class)
        self.tasks.require_held_out(spec.held_out)
        method = METHODS.get(spec.method)
        classes = len(dataset.class_names)
        self.model = build_model(spec, shape, classes).to(device)
        self.optimizer = make_optimizer(spec, self.model)
        self.learner = Learner(
            spec=spec,
            model=self.model,
            views=Views(dataset, device),
            buffer=_buffer(spec, shape, classes, device),
            generators=Generators(spec.seed, device),
            emit=self.events.emit,
            classes=classes,
        )
        self.method = self.learner.method = method(self.learner)
        if spec.warmup_epochs > self.method.epochs():
            raise SpecError(
                f"warmup_epochs {spec.warmup_epochs:g} is more than a task's epochs ({self.method.epochs()}):"
                " the rate would never reach lr"
            )
        self.steps = self._steps(shape)
        self.task_number = 1  # the task in hand, and the epochs it has had
        self.epoch = 0
        self.mastered = False
        self.untrained: list[float] = []
        # As arrays: with a thousand tasks these are a million numbers each, and saved again and again.
        self.accuracy_matrix: list[array[float]] = []
        self.class_accuracy: list[array[float]] = []
        self.held_out_accuracy: float | None = None
        self.epochs_per_task: list[int] = []
        self.collapsed: int | None = None
        self.optimizer_steps = 0
        self.samples_seen = 0
        self.replay_batches = 0
        self.seconds = 0.0

    def _steps(self, shape: tuple[int, ...]) -> PlainSteps | CapturedSteps:
        step = Step(self.learner, self.method, self.optimizer)
        if self.spec.device == "cpu":
            return PlainSteps(step)
        sizes = self.tasks.train_sizes
        compiled = self.method.epochs() * sum(sizes) / self.spec.batch_size >= COMPILE_FROM_STEPS
        most = sum(sizes) if self.method.sees_all_tasks else max(sizes)
        return CapturedSteps(step, most, shape, CudaCapture(), compiled)

    @property
    def epochs_trained(self) -> int:
        return sum(self.epochs_per_task) + self.epoch

    def run(self, boundary: Callable[[], None] = lambda: None) -> None:
        for _ in self.advance(boundary):
            pass

    def advance(self, boundary: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Train on every task that is left, each until its epochs are done or its method says so.

        `boundary` is called between epochs, where the state is whole. Yields whenever an epoch's steps or an evaluation
        are on their way: whoever drives several runs on one GPU may turn to another while the device works.
        """
        if not self.model.training:  # else each module stays as it was made: one may be frozen
            self.model.train()
        if not self.untrained:
            self.untrained, _ = self._accuracies(self._predict())
            self.events.emit(
                "run_started",
                spec=self.spec.to_dict(),
                tasks=[list(c) for c in self.tasks.classes],
                epochs=self.method.epochs(),
            )
        else:
            self.events.emit("run_resumed", task=self.task_number, epoch=self.epoch, epochs=self.method.epochs())
        while self.task_number <= len(self.tasks):
            started = time.perf_counter()
            task = self._task(self.task_number)
            if self.epoch == 0:
                self.events.emit("task_started", task=task.number, classes=list(task.classes))
                self.method.begin_task(task)
            data = self._training_data(task)
            self.steps.begin_task(data)
            while self.epoch < self.method.epochs() and not self.mastered:
                self.epoch += 1
                yield from self._train_epoch(task, len(data))
                self.mastered = self.method.end_epoch(task, self.epoch)
                self.seconds += time.perf_counter() - started
                started = time.perf_counter()
                boundary()
            self.method.end_task(task)
            logits = self._predict()
            yield
            self._end_task(task, logits)
            self.seconds += time.perf_counter() - started
        self.held_out_accuracy = self._accuracy_on_held_out()
        self.events.emit("run_finished", seconds=self.seconds)

    def _train_epoch(self, task: Task, examples: int) -> Iterator[None]:
        mix = self.method.mix(task, self.epoch)
        epochs = self.method.epochs()
        plan = plan_epoch(self.learner, examples, mix, lambda steps: rates(self.spec, self.epoch, epochs, steps))
        steps = sum(map(len, plan))
        losses = torch.empty(steps, device=self.tasks.test.y.device)
        taken = 0
        for batches in plan:
            for _ in self.steps.take(batches, losses[taken : taken + len(batches)]):
                taken += 1
                self.events.emit("step", task=task.number, epoch=self.epoch, epochs=epochs, step=taken, steps=steps)
                if taken % STEPS_PER_TURN == 0:
                    yield
        yield
        self._check_finite(losses, task)
        self.optimizer_steps += steps
        self.samples_seen += sum(batches.samples for batches in plan)
        self.replay_batches += steps if mix.replay else 0
        self.events.emit(
            "epoch_finished",
            task=task.number,
            epoch=self.epoch,
            epochs=epochs,
            loss=float(losses.mean()),
            optimizer_steps=self.optimizer_steps,
            replayed=mix.replay > 0,
        )

    def _check_finite(self, losses: Tensor, task: Task) -> None:
        # Once an epoch and not after each step, where a GPU would have to wait for the answer.
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            first = int(bad[0])
            step, value = self.optimizer_steps + first + 1, float(losses[first])
            self.events.emit("failed", task=task.number, epoch=self.epoch, step=step, loss=str(value))
            raise DivergedError(
                f"the loss of {self.spec.method} became {value} at step {step} (task {task.number}, epoch"
                f" {self.epoch}): try a smaller lr (now {self.spec.lr:g}) or penalty"
            )

    def _end_task(self, task: Task, logits: Tensor) -> None:
        row, constant = self._accuracies(logits, task.number)
        self.accuracy_matrix.append(array("d", row))
        self.class_accuracy.append(array("d", self._class_accuracies(logits)))
        self.epochs_per_task.append(self.epoch)
        accuracy = pooled_accuracy(row, self.tasks.test_sizes, task.number)
        self.events.emit("task_finished", task=task.number, epochs=self.epoch, accuracy=accuracy, row=row)
        if constant and self.collapsed is None:
            self.collapsed = task.number
            self.events.emit("collapsed", task=task.number)
        self.task_number, self.epoch, self.mastered = task.number + 1, 0, False

    def _accuracies(self, logits: Tensor, seen: int = 0) -> tuple[list[float], bool]:
        """Accuracy on each task's test set; and whether the network died: after `seen` tasks it answers all the same.

        With one class a task, always naming the newest is mere forgetting; then the logits themselves must not move.
        """
        chosen = logits.argmax(dim=1)
        right = (chosen == self.tasks.test.y).split(self.tasks.test_sizes)
        correct = torch.stack([part.sum() for part in right]).tolist()
        row = [100 * count / size for count, size in zip(correct, self.tasks.test_sizes, strict=True)]
        asked = sum(self.tasks.test_sizes[:seen])
        constant = False
        if sum(len(classes) for classes in self.tasks.classes[:seen]) > 1:
            if len(self.tasks.classes[seen - 1]) > 1:
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
        right = torch.bincount(y[logits.argmax(dim=1) == y], minlength=classes).tolist()
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

    _PROGRESS = (
        "task_number",
        "epoch",
        "mastered",
        "untrained",
        "epochs_per_task",
        "collapsed",
        "optimizer_steps",
        "samples_seen",
        "replay_batches",
        "seconds",
    )

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during a run, as it is between two epochs."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.learner.buffer.state_dict(),
            "generators": self.learner.generators.state_dict(),
            "method": self.method.state_dict(),
            "probes": list(self.learner.probes),
            "accuracy_matrix": torch.from_numpy(np.array(self.accuracy_matrix, dtype=np.float64)),
            "class_accuracy": torch.from_numpy(np.array(self.class_accuracy, dtype=np.float64)),
            "progress": {name: getattr(self, name) for name in self._PROGRESS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.learner.buffer.load_state_dict(state["buffer"])
        self.learner.generators.load_state_dict(state["generators"])
        self.method.load_state_dict(state["method"])
        self.learner.probes = list(state["probes"])
        self.accuracy_matrix = [array("d", row) for row in state["accuracy_matrix"].tolist()]
        self.class_accuracy = [array("d", row) for row in state["class_accuracy"].tolist()]
        for name in self._PROGRESS:
            value = state["progress"][name]
            setattr(self, name, list(value) if isinstance(value, list) else value)
        done = self.task_number - 1
        tasks = len(self.tasks)
        if not (0 <= done < tasks and len(self.epochs_per_task) == done and self.epoch > 0):
            raise ValueError(f"task {self.task_number} of {tasks} and epoch {self.epoch} cannot be")
        classes = sum(map(len, self.tasks.classes))
        for matrix, width in ((self.accuracy_matrix, tasks), (self.class_accuracy, classes)):
            if len(self.untrained) != tasks or len(matrix) != done or any(len(row) != width for row in matrix):
                raise ValueError(f"accuracies of other than {tasks} tasks and {classes} classes")

    def weights_sha256(self) -> str:
        """A fingerprint of every weight and statistic: two runs with the same one ended bit for bit alike."""
        digest = hashlib.sha256()
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def build_model(spec: RunSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The model with initial weights by the seed. torch initialises from its global generator, which is borrowed for
    that and given back as it was.
    """
    channels, height, width = shape
    with seeded(derived_seed(spec.seed, "init")):
        make, options = MODELS.get(spec.model), spec.options_of(MODELS, spec.model)
        model = make((channels, height, width), classes, **options)
    if not isinstance(model, nn.Module):
        raise SpecError(f"model {spec.model} made a {type(model).__name__}: it must make a torch.nn.Module")
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _buffer(spec: RunSpec, shape: tuple[int, ...], classes: int, device: torch.device) -> Buffer:
    """Of a method that has the options of one; else one that holds nothing and takes nothing."""
    if spec.get("buffer_capacity") is None:
        return Buffer(0, shape, device=device)
    policy = POLICIES.get(spec.policy)(**spec.options_of(POLICIES, spec.policy))
    return Buffer(spec.buffer_capacity, shape, policy, device, beside=METHODS.get(spec.method).fields(classes))
