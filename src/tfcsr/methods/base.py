"""What a method may do: everything it does not override is plain training on the newest task."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr.buffer.buffer import Buffer
from tfcsr.data.tasks import Examples, Task
from tfcsr.data.views import Views, crop_flip, draw_crops
from tfcsr.generators import Generators
from tfcsr.models.predict import predict
from tfcsr.recall.probe import Recall, probe
from tfcsr.spec import RunSpec


@dataclass(frozen=True)
class Mix:
    """How an epoch's batches are composed: of every `stride` new examples the first `new`, and `replay` old ones."""

    new: int
    replay: int
    stride: int


@dataclass
class Learner:
    """The network and all it learns with. A method works on this; the loop makes it and trains it."""

    spec: RunSpec
    model: nn.Module
    views: Views
    buffer: Buffer
    generators: Generators
    emit: Callable[..., None]
    probes: list[dict[str, Any]] = field(default_factory=list)

    def view(self, x: Tensor) -> Tensor:
        """A view of new examples as training would show them, not yet normalised."""
        if self.spec.augment == "none":
            return x
        return crop_flip(x, draw_crops(len(x), x.shape, self.generators["augmentation"]).to(x.device))

    def remember(self, examples: Examples) -> None:
        """Let examples pass through the buffer; under a frozen replay view each as one augmented view."""
        x = self.view(examples.x) if self.spec.replay_view == "frozen" else examples.x
        self.buffer.add(x, examples.y, self.generators["reservoir"])

    def precision(self) -> AbstractContextManager[Any]:
        """The arithmetic of forward passes. Casts are not cached: a captured step must make them anew each time."""
        enabled = self.spec.precision == "bf16"
        return torch.autocast(self.buffer.y.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    def predict(self, x: Tensor) -> Tensor:
        """The logits for stored images."""
        with self.precision():
            return predict(self.model, x, self.views.normalised)

    def accuracy(self, examples: Examples) -> float:
        chosen = self.predict(examples.x).argmax(dim=1)
        return 100 * int((chosen == examples.y).sum()) / len(examples)

    def recall(self, task: int, epoch: int) -> Recall:
        """One memory check, by the spec's probe mode.

        All but the placebo draw from a generator of that epoch's own: what a probe finds does not depend on which
        probes there were before it.
        """
        count = min(self.spec.probe_size, len(self.buffer))
        if self.spec.probe_mode == "placebo":
            self.buffer.draw(1, count, self.generators["replay"])
            return Recall(100.0, {})
        chosen = self.buffer.draw(1, count, self.generators.at(f"probe/{task}/{epoch}"))[0]
        with self.precision():
            return probe(
                self.model,
                self.buffer.x[chosen],
                self.buffer.y[chosen],
                self.buffer.classes(),
                self.views.normalised,
                train_mode=self.spec.probe_mode == "train",
            )

    def record_probe(self, task: int, epoch: int, recall: Recall, passed: bool, next_epoch: int | None) -> None:
        found = {"task": task, "epoch": epoch, "recall": recall.overall, "passed": passed, "next_epoch": next_epoch}
        self.probes.append(found)
        self.emit("probe", **found, per_class=recall.per_class)


class Method:
    """Plain training. The loop calls the hooks in the order they stand here.

    What a method sets on itself is saved with the run and comes back when it is resumed. One that keeps anything but
    tensors, numbers, text, lists, tuples and dicts says by `state_dict` and `load_state_dict` how.

    On a GPU the step, with `penalty` and `after_step`, is recorded and replayed: what they use must be tensors, changed
    in place; where anything else changes in between, at the end of a task say, the step is recorded anew.
    """

    uses_buffer = False
    sees_all_tasks = False  # only the upper bound trains on more than the newest task
    outside_step: tuple[str, ...] = ()  # what of `state_dict` neither `penalty` nor `after_step` looks at

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.spec = learner.spec

    def epochs(self) -> int:
        """The most epochs a task is trained for."""
        return self.spec.epochs

    def begin_task(self, task: Task) -> None:
        """Before the first step of a task."""

    def mix(self, task: Task, epoch: int) -> Mix:
        """How this epoch's batches are composed."""
        return Mix(new=self.spec.batch_size, replay=0, stride=self.spec.batch_size)

    def penalty(self) -> Tensor | None:
        """What is added to the loss of every batch."""
        return None

    def after_step(self) -> None:
        """After the optimizer's step; the gradients of the whole loss are still there."""

    def end_epoch(self, task: Task, epoch: int) -> bool:
        """After an epoch, from 1. True: the task is done, whatever epochs are left."""
        return False

    def end_task(self, task: Task) -> None:
        """After the last epoch of a task, before it is evaluated."""

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("learner", "spec")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, copy.deepcopy(value))

    def parameters(self) -> list[nn.Parameter]:
        return [p for p in self.learner.model.parameters() if p.requires_grad]


def squared_distance(parameters: list[nn.Parameter], anchor: list[Tensor], weight: list[Tensor]) -> Tensor:
    """The sum over all parameters of weight (θ - anchor)², which EWC and SI both charge for leaving their anchor."""
    distance: Tensor = _SquaredDistance.apply(anchor, weight, *parameters)  # type: ignore[no-untyped-call]
    return distance


class _SquaredDistance(torch.autograd.Function):
    """All parameters at once, with the gradient 2 weight (θ - anchor) written out: a few launches on a GPU, where
    autograd over one parameter after the other takes several hundred, longer than the rest of a step.
    """

    @staticmethod
    def forward(ctx: Any, anchor: list[Tensor], weight: list[Tensor], *parameters: Tensor) -> Tensor:
        distance = torch._foreach_sub(parameters, anchor)
        weighted = torch._foreach_mul(distance, weight)
        ctx.save_for_backward(*weighted)
        return torch.stack([part.sum() for part in torch._foreach_mul(weighted, distance)]).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> Any:
        return None, None, *torch._foreach_mul(ctx.saved_tensors, 2 * outer[0])
