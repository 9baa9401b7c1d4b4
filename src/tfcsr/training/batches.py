"""The batches of an epoch: which examples, in which order, seen how. All of it is drawn before the first step."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcsr.data.views import crop_flip, draw_crops, normalise
from tfcsr.methods.base import Mix
from tfcsr.methods.learner import Learner


@dataclass(frozen=True)
class Batches:
    """Batches of one shape, a row each: positions among the new examples and in the buffer, where augmented the crop of
    each, and where it varies the learning rate. `compose` makes a batch of a row.
    """

    new: Tensor  # [batches, n]
    replay: Tensor  # [batches, r]
    new_crops: Tensor | None  # [batches, n, 3]
    replay_crops: Tensor | None  # [batches, r, 3]
    rates: Tensor | None = None  # [batches]

    def __len__(self) -> int:
        return len(self.new)

    @property
    def samples(self) -> int:
        return self.new.numel() + self.replay.numel()

    @property
    def shape(self) -> tuple[int, int]:
        return self.new.shape[1], self.replay.shape[1]

    def positions(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.new, self.replay, self.new_crops, self.replay_crops

    def tensors(self) -> tuple[Tensor | None, ...]:
        return *self.positions(), self.rates

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batches":
        more = (None if part is None else change(part) for part in (self.new_crops, self.replay_crops, self.rates))
        return Batches(change(self.new), change(self.replay), *more)


def plan_epoch(
    learner: Learner, examples: int, mix: Mix, rates: Callable[[int], Tensor | None] = lambda steps: None
) -> list[Batches]:
    """An epoch's batches: those of the full shape, then what is left over. Drawn on the CPU, brought over at once.

    `rates` gives the learning rates of so many steps.
    """
    generators, device = learner.generators, learner.device
    order = torch.randperm(examples, generator=generators["order"])
    whole = examples // mix.stride
    rest = order[whole * mix.stride :][: mix.new]
    new = order[: whole * mix.stride].reshape(whole, mix.stride)[:, : mix.new]
    parts = [new] if whole else []
    if whole and len(rest) + mix.replay == 1:
        # Batch normalisation cannot work on a single example: the last one joins the batch before.
        parts = [new[:-1], torch.cat([new[-1], rest])[None]] if whole > 1 else [torch.cat([new[0], rest])[None]]
    elif len(rest):
        parts.append(rest[None])
    steps = sum(map(len, parts))
    replay = learner.method.draw(steps, mix.replay)
    rate = rates(steps)

    def crops(positions: Tensor) -> Tensor:
        drawn = draw_crops(positions.numel(), learner.buffer.x.shape, generators["augmentation"])
        return drawn.reshape(*positions.shape, 3).to(device)

    plan = []
    for new in parts:
        old, replay = replay[: len(new)], replay[len(new) :]
        new_crops, replay_crops = None, None
        if learner.spec.augment == "crop-flip":
            new_crops = crops(new)
            if learner.spec.get("replay_view") != "frozen":
                replay_crops = crops(old)
        first = None
        if rate is not None:
            first, rate = rate[: len(new)].to(device), rate[len(new) :]
        plan.append(Batches(new.to(device), old, new_crops, replay_crops, first))
    return plan


def compose(
    x: Tensor,
    y: Tensor,
    buffer_x: Tensor,
    buffer_y: Tensor,
    mean: Tensor | None,
    std: Tensor | None,
    new: Tensor,
    replay: Tensor,
    new_crops: Tensor | None,
    replay_crops: Tensor | None,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """One batch as the model takes it, and its labels, new examples first. Tensors in, tensors out, so that it
    compiles.
    """
    seen = x[new]
    if new_crops is not None:
        seen = crop_flip(seen, new_crops)
    labels = y[new]
    if len(replay):
        old = buffer_x[replay]
        if replay_crops is not None:
            old = crop_flip(old, replay_crops)
        seen, labels = torch.cat([seen, old]), torch.cat([labels, buffer_y[replay]])
    if transform is not None:
        seen = transform(seen)
    return normalise(seen, mean, std), labels
