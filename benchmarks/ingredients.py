"""Ingredients of other methods, each in `tfcsr-distill`: a plugin, and what it takes to see whether one pays.

    tfcsr compare --plugin benchmarks/ingredients.py --methods tfcsr-distill,bfp,momentum,logits,aligned ...

What was found, and the whole command, is in docs/spaced-recall.md. The formulas are those of the papers named below;
memory, schedule and recipe are those of `tfcsr-distill`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcsr import METHODS, Option
from tfcsr.buffer.policies.base import Field
from tfcsr.data.views import before_it, own_share
from tfcsr.methods.base import Batch
from tfcsr.methods.tfcsr_distill import DistilledConsolidation

if TYPE_CHECKING:
    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

UNKNOWN = float("nan")


@METHODS.add("bfp")
class BackwardProjection(DistilledConsolidation):
    """Features may change by a linear map: |A f - f before|, in place of their cosine (Gu et al. 2023, BFP).

    A begins each task as the identity and is learned beside the network, by SGD with momentum, as in the authors' code.
    Lengths are in units of the features before, so that the weight means the same for every network.
    """

    options: ClassVar = (
        *DistilledConsolidation.options,
        Option("projected_weight", float, 1.0, "weight of the distance of projected features", low=0, high=1e6),
        Option("projection_lr", float, 0.1, "learning rate of the projection", low=0, high=1e3),
    )
    defaults: ClassVar = {**DistilledConsolidation.defaults, "feature_weight": 0.0}

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.projection = self.velocity = torch.zeros(0)

    def begin_task(self, task: "Task") -> None:
        super().begin_task(task)
        if task.number > 1:
            size = self.learner.features(task.train.x[:1].to(self.learner.device)).shape[1]
            self.projection = torch.eye(size, device=self.learner.device)
            self.velocity = torch.zeros_like(self.projection)

    def loss(self, batch: Batch, logits: Tensor) -> Tensor:
        loss = super().loss(batch, logits)
        if self.old is None:
            return loss
        with torch.no_grad():
            _, before = self.learner.with_features(self.old, batch.x)
        # In full precision: the projection is learned.
        with torch.autocast(before.device.type, enabled=False):
            gap = batch.features @ self.projection.requires_grad_() - before
            relative = gap.norm(dim=1) / before.norm(dim=1).clamp(min=1e-6)
        scale = (self.past.sum() / self.arriving.sum()).sqrt()
        distance: Tensor = scale * self.spec.projected_weight * relative.mean()
        return loss + distance

    def after_step(self) -> None:
        super().after_step()
        if self.old is not None and self.projection.grad is not None:
            with torch.no_grad():
                self.velocity.mul_(0.9).add_(self.projection.grad)
                self.projection.sub_(self.spec.projection_lr * self.velocity)
                self.projection.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"projection": self.projection.detach()}


@METHODS.add("momentum")
class MomentumTeacher(DistilledConsolidation):
    """The network that is distilled follows the one that learns, slowly (Michel et al. 2024, MKD)."""

    options: ClassVar = (
        *DistilledConsolidation.options,
        Option("teacher_rate", float, 1e-3, "how far the old network goes towards the new in a step", low=0, high=1),
    )

    def after_step(self) -> None:
        super().after_step()
        if self.old is None:
            return
        with torch.no_grad():
            for old, now in zip(self.old.state_dict().values(), self.learner.model.state_dict().values(), strict=True):
                if old.is_floating_point():
                    old.lerp_(now, self.spec.teacher_rate)


@METHODS.add("logits")
class RewrittenLogits(DistilledConsolidation):
    """A replayed example is also held to the logits stored with it. Those of later classes are added once these have
    been learned, and kept below its own (Boschini et al. 2022, X-DER).
    """

    options: ClassVar = (
        *DistilledConsolidation.options,
        Option("alpha", float, 0.3, "weight of the distance to the stored logits", low=0, high=1e6),
        Option("highest", float, 0.85, "a later class's logit is at most so much of the own", low=0, high=1),
    )

    @classmethod
    def fields(cls, classes: int) -> Mapping[str, Field]:
        return {"logits": Field((classes,), torch.float32, later=UNKNOWN)}

    def store(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        # The memory is filled before the task is learned: there is nothing worth keeping yet.
        return {"logits": torch.full((len(x), self.learner.classes), UNKNOWN, device=y.device)}

    def loss(self, batch: Batch, logits: Tensor) -> Tensor:
        loss = super().loss(batch, logits)
        if not batch.replayed:
            return loss
        stored, now = batch.stored["logits"], logits[batch.new :].float()
        if batch.patch is not None:  # an image with a patch of another is held to both
            own = own_share(batch.patch, batch.x.shape)
            stored = own * stored + (1 - own) * before_it(stored, 0)
        distance: Tensor = F.mse_loss(now, torch.where(stored.isnan(), now.detach(), stored))
        return loss + distance * float(self.spec.alpha)

    def end_task(self, task: "Task") -> None:
        super().end_task(task)
        buffer = self.learner.buffer
        for slots in buffer.in_blocks():
            y, stored = buffer.y[slots], buffer.fields["logits"][slots]
            now = self.learner.logits(buffer.examples(slots)).float()
            new = self.arriving[y]
            # A new example gets all it says now; an old one what it says of the classes that have just been learned.
            stored = torch.where(new[:, None], now, stored)
            own = stored.gather(1, y[:, None])
            # Rewritten are those of the old one's new classes, and of the new one's old ones.
            others = torch.where(new[:, None], self.past, self.arriving)
            top = now.masked_fill(~others, -torch.inf).amax(dim=1, keepdim=True)
            less = torch.where((top > own) & (own > 0), self.spec.highest * own / top, 1.0)
            stored = torch.where(others, now * less, stored).masked_fill(~self.known, UNKNOWN)
            buffer.write(slots, logits=stored)


@METHODS.add("aligned")
class AlignedWeights(DistilledConsolidation):
    """After a task the weights of its classes get the mean length of those of the old (Zhao et al. 2020, WA)."""

    options: ClassVar = (
        *DistilledConsolidation.options,
        Option("align", float, 1.0, "how far: 0 not at all, 1 as far as the paper", low=0, high=1),
    )

    def end_task(self, task: "Task") -> None:
        super().end_task(task)
        if task.number == 1:
            return
        from tfcsr.models.head import find_head

        weight = find_head(self.learner.model, self.learner.head).weight
        with torch.no_grad():
            old, new = (weight[of].norm(dim=1).mean() for of in (self.past, self.arriving))
            weight[self.arriving] *= (old / new) ** self.spec.align
