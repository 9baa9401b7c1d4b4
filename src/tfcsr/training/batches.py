"""The batches of an epoch: which examples, in which order, seen how. All of it is drawn before the first step."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcsr.data.tasks import Examples
from tfcsr.data.views import crop_flip, draw_crops
from tfcsr.methods.base import Learner, Mix


@dataclass(frozen=True)
class EpochPlan:
    """Positions of the new examples of each batch, and [batches, n] positions in the buffer; crops where augmented."""

    new: list[Tensor]
    replay: Tensor
    new_crops: list[Tensor] | None
    replay_crops: Tensor | None

    def __len__(self) -> int:
        return len(self.new)

    @property
    def samples(self) -> int:
        return sum(len(positions) for positions in self.new) + self.replay.numel()


def plan_epoch(learner: Learner, examples: int, mix: Mix) -> EpochPlan:
    generators, device = learner.generators, learner.buffer.y.device
    order = torch.randperm(examples, generator=generators["order"])
    new = [part[: mix.new] for part in order.split(mix.stride)]
    if len(new) > 1 and len(new[-1]) + mix.replay == 1:
        # Batch normalisation cannot work on a single example: the last one joins the batch before.
        new[-2:] = [torch.cat(new[-2:])]
    replay = learner.buffer.draw(len(new), mix.replay, generators["replay"])
    new_crops, replay_crops = None, None
    if learner.spec.augment == "crop-flip":
        sizes = [len(positions) for positions in new]
        new_crops = list(draw_crops(sum(sizes), generators["augmentation"]).to(device).split(sizes))
        if learner.spec.replay_view == "fresh":
            crops = draw_crops(replay.numel(), generators["augmentation"])
            replay_crops = crops.reshape(*replay.shape, 3).to(device)
    sizes = [len(positions) for positions in new]
    return EpochPlan(list(torch.cat(new).to(device).split(sizes)), replay, new_crops, replay_crops)


def compose(learner: Learner, data: Examples, plan: EpochPlan) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of the plan, normalised, one after another."""
    for i, positions in enumerate(plan.new):
        x, y = data.x[positions], data.y[positions]
        if plan.new_crops is not None:
            x = crop_flip(x, plan.new_crops[i])
        if plan.replay.shape[1]:
            old = learner.buffer.x[plan.replay[i]]
            if plan.replay_crops is not None:
                old = crop_flip(old, plan.replay_crops[i])
            x, y = torch.cat([x, old]), torch.cat([y, learner.buffer.y[plan.replay[i]]])
        yield learner.views.normalised(x), y
