"""The network and all it learns with: what a method works on."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tfcsr.buffer.buffer import Buffer
from tfcsr.data.tasks import Examples
from tfcsr.data.views import Views, crop_flip, draw_crops
from tfcsr.errors import SpecError
from tfcsr.generators import Generators
from tfcsr.models.head import features
from tfcsr.models.predict import predict
from tfcsr.recall.probe import Recall, score
from tfcsr.spec import RunSpec

if TYPE_CHECKING:
    from tfcsr.methods.base import Method


@dataclass
class Learner:
    """The loop makes it and trains it; a method works on it."""

    spec: RunSpec
    model: nn.Module
    views: Views
    buffer: Buffer
    generators: Generators
    emit: Callable[..., None]
    classes: int
    head: str | None = None
    """The name of the network's last linear layer; None: the last one there is."""
    probes: list[dict[str, Any]] = field(default_factory=list)
    method: "Method" = field(init=False)

    @property
    def device(self) -> torch.device:
        return self.buffer.y.device

    @property
    def has_buffer(self) -> bool:
        return self.buffer.capacity > 0

    def view(self, x: Tensor) -> Tensor:
        """A view of new examples as training would show them, not yet normalised."""
        if self.spec.augment == "none":
            return x
        return crop_flip(x, draw_crops(len(x), x.shape, self.generators["augmentation"]).to(x.device))

    def remember(self, examples: Examples) -> None:
        """Let examples pass through the buffer, and store beside those that stay what the method wants there. Under a
        frozen replay view each is stored as one augmented view.
        """
        x = self.view(examples.x) if self.spec.get("replay_view") == "frozen" else examples.x
        changes = self.buffer.add(x, examples.y, self.generators["reservoir"], self.features)
        slots, rows = changes.arrived()
        if len(slots):
            # The examples may lie elsewhere than the labels and the buffer.
            self.buffer.write(slots, **self.method.store(x[rows.to(x.device)], examples.y[rows]))

    def precision(self) -> AbstractContextManager[Any]:
        """The arithmetic of forward passes. Casts are not cached: a captured step must make them anew each time."""
        enabled = self.spec.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    def logits(self, x: Tensor, *, train_mode: bool = False) -> Tensor:
        """What the network says to stored images. It leaves no trace, but for batch-norm statistics in train mode."""
        with self.precision(), self.generators.dropout_at("asked"):
            return predict(self.model, x, self.views.normalised, train_mode=train_mode)

    def features(self, x: Tensor) -> Tensor:
        """What the network's last layer is fed with for stored images."""
        with self.precision(), self.generators.dropout_at("asked"):
            return features(self.model, x, self.views.normalised, head=self.head)

    def frozen_copy(self) -> nn.Module:
        """The network as it is now, in eval mode, never to be trained: to compare with later."""
        return copy.deepcopy(self.model).eval().requires_grad_(False)

    def accuracy(self, examples: Examples) -> float:
        if len(examples) == 0:
            raise SpecError("there is nothing to measure on: raise held_out, so that some examples are held out")
        chosen = self.method.predict(examples.x).argmax(dim=1)
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
        x = self.buffer.x[chosen]
        found = self.logits(x, train_mode=True) if self.spec.probe_mode == "train" else self.method.predict(x)
        return score(found, self.buffer.y[chosen], self.buffer.classes())

    def record_probe(self, task: int, epoch: int, recall: Recall, passed: bool, next_epoch: int | None) -> None:
        found = {"task": task, "epoch": epoch, "recall": recall.overall, "passed": passed, "next_epoch": next_epoch}
        self.probes.append(found)
        self.emit("probe", **found, per_class=recall.per_class)
