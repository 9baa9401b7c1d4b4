"""The batches of an epoch: which examples, in which order, seen how. All of it is drawn before the first step."""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tfcsr.data.views import (
    COLOUR,
    CROP,
    CUT,
    crop_flip,
    cut_out,
    draw_patches,
    draw_views,
    normalise,
    pasted,
    recoloured,
)
from tfcsr.methods.base import Mix
from tfcsr.methods.learner import Learner


@dataclass(frozen=True)
class Batches:
    """Batches of one shape, a row each: positions among the new examples and in the buffer, where augmented the view of
    each, the patch that images get of another, and where it varies the learning rate. `compose` makes a batch of a row.
    """

    new: Tensor  # [batches, n]
    replay: Tensor  # [batches, r]
    new_views: Tensor | None  # [batches, n, what `draw_views` draws]
    replay_views: Tensor | None  # [batches, r, the same]
    patches: Tensor | None = None  # [batches, 4]
    rates: Tensor | None = None  # [batches]

    def __len__(self) -> int:
        return len(self.new)

    @property
    def samples(self) -> int:
        return self.new.numel() + self.replay.numel()

    @property
    def shape(self) -> tuple[int, int]:
        return self.new.shape[1], self.replay.shape[1]

    def positions(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
        return self.new, self.replay, self.new_views, self.replay_views, self.patches

    def tensors(self) -> tuple[Tensor | None, ...]:
        return *self.positions(), self.rates

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batches":
        more = (None if part is None else change(part) for part in self.tensors()[2:])
        return Batches(change(self.new), change(self.replay), *more)


def plan_epoch(
    learner: Learner,
    examples: int,
    mix: Mix,
    rates: Callable[[int], Tensor | None] = lambda steps: None,
    rows: Tensor | None = None,
) -> list[Batches]:
    """An epoch's batches: those of the full shape, then what is left over. Drawn on the CPU, brought over at once.

    `rates` gives the learning rates of so many steps; `rows` are the examples to be used, where not all of them are.
    """
    generators, device = learner.generators, learner.device
    examples = examples if rows is None else len(rows)
    order = torch.randperm(examples, generator=generators["order"])
    if rows is not None:
        order = rows[order]
    if mix.examples is not None:
        order = order[: mix.examples]
        examples = len(order)
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

    def views(positions: Tensor) -> Tensor:
        shape, augment = learner.buffer.shape, learner.spec.augment
        drawn = draw_views(positions.numel(), shape, generators["augmentation"], augment)
        return drawn.reshape(*positions.shape, drawn.shape[1]).to(device)

    plan = []
    for new in parts:
        old, replay = replay[: len(new)], replay[len(new) :]
        new_views, replay_views, patches = None, None, None
        if learner.spec.augment != "none":
            new_views = views(new)
            if learner.spec.get("replay_view") != "frozen":
                replay_views = views(old)
            if share := learner.spec.get("cutmix", 0.0):
                patches = draw_patches(len(new), learner.buffer.shape, generators["augmentation"], share).to(device)
        first = None
        if rate is not None:
            first, rate = rate[: len(new)].to(device), rate[len(new) :]
        plan.append(Batches(new.to(device), old, new_views, replay_views, patches, first))
    return plan


def first_steps(plan: list[Batches], steps: int) -> list[Batches]:
    """So many batches of a plan, or all it has."""
    kept = []
    for batches in plan:
        taken = min(steps, len(batches))
        if taken:
            kept.append(batches.each(operator.itemgetter(slice(taken))))
        steps -= taken
    return kept


def compose(
    x: Tensor,
    y: Tensor,
    buffer_x: Tensor,
    buffer_y: Tensor,
    mean: Tensor | None,
    std: Tensor | None,
    new: Tensor,
    replay: Tensor,
    new_views: Tensor | None,
    replay_views: Tensor | None,
    patch: Tensor | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """One batch as the model takes it, and its labels, new examples first. Tensors in, tensors out, so that it
    compiles.
    """
    seen, views = x[new], new_views
    if new_views is not None:
        seen = crop_flip(seen, new_views[:, CROP])
    labels = y[new]
    if len(replay):
        old = buffer_x[replay]
        if replay_views is not None:
            old = crop_flip(old, replay_views[:, CROP])
            views = replay_views if views is None else torch.cat([views, replay_views])
        seen, labels = torch.cat([seen, old]), torch.cat([labels, buffer_y[replay]])
    if transform is not None:  # first: it knows examples as they are stored
        seen = transform(seen)
    strong = views if views is not None and views.shape[1] > CROP.stop else None
    if strong is not None:
        seen = recoloured(seen, strong[:, COLOUR])
    seen = normalise(seen, mean, std)
    if strong is not None:
        seen = cut_out(seen, strong[:, CUT])
    return seen if patch is None else pasted(seen, patch, len(new)), labels
