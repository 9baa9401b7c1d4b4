"""How far a network is from what it was before a task, in its answers and in its features; and what it is to learn
meanwhile. Tensors in, tensors out, so that it compiles.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfcsr.methods.base import NEVER, Batch, within


def by_labels(
    batch: Batch,
    logits: Tensor,
    own: Tensor,
    rivals: Tensor,
    raised: Tensor,
    arriving: Tensor,
    task_of: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """CE(new, over their own classes) + CE(replayed, over their rivals), of logits raised by so much; and how many of
    the new are told right among those that arrive.
    """
    logits, new = logits.float(), batch.new
    trained = logits + raised

    def loss(y: Tensor) -> Tensor:
        reached = within(trained, y, task_of)
        of_new = F.cross_entropy(reached[:new].masked_fill(~own, NEVER), y[:new])
        replayed = reached[new:].masked_fill(~rivals, NEVER)
        return of_new + F.cross_entropy(replayed, y[new:]) if len(replayed) else of_new

    told = logits.detach()[:new].masked_fill(~arriving, NEVER).argmax(dim=1)
    return batch.blend(loss), (told == batch.y[:new]).sum()


def log_shares(new: Tensor, replayed: Tensor, rivals: Tensor) -> Tensor:
    """The log of each class's share in training, by the labels of what is trained on: new and replayed examples count
    alike, as in the loss, and of the replayed those of `rivals` alone. A class of which there is nothing has no share.

    A logit raised by it says in the end what it would if all classes had the same share (Ren et al. 2020).
    """
    share = _counts(new, rivals) / max(1, len(new))
    kept = _counts(replayed, rivals) * rivals
    share = share + kept / kept.sum().clamp(min=1)
    return share.log().clamp(min=NEVER)


def _counts(labels: Tensor, classes: Tensor) -> Tensor:
    # Not bincount, for which the device would be waited for.
    return torch.zeros_like(classes, dtype=torch.int64).index_add_(0, labels, torch.ones_like(labels))


def drift(
    before: tuple[Tensor, Tensor],
    now: tuple[Tensor, Tensor],
    past: Tensor,
    arriving: Tensor,
    temperature: float,
    task_of: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of answers and features, before and now: T² times the divergence of answers among past classes, and the turn of
    features. What both weigh: the root of how many classes are past for each that arrives.
    """
    answers = divergence(before[0].float(), now[0].float(), past, temperature, task_of)
    scale = (past.sum() / arriving.sum()).sqrt()
    return temperature * temperature * answers, turn(before[1], now[1]), scale


def divergence(
    before: Tensor,
    now: Tensor,
    among: Tensor,
    temperature: float,
    task_of: Tensor | None = None,
    now_among: Tensor | None = None,
) -> Tensor:
    """KL(before || now) of the answers to a batch, logits [N, classes], at a temperature: the mean over examples. Its
    gradient is that of the cross-entropy to the answers before.

    Answers are shares of the classes `among`; those now, of `now_among`, if given, of which the others had no share. By
    the task of each class they are shares within each task, and the divergence is the mean over the tasks.
    """
    if task_of is not None:
        return _within_tasks(before / temperature, now / temperature, among, task_of)
    said = F.log_softmax((before / temperature).masked_fill(~among, NEVER), dim=1)
    says = F.log_softmax((now / temperature).masked_fill(~(among if now_among is None else now_among), NEVER), dim=1)
    return F.kl_div(says, said, reduction="batchmean", log_target=True)


def turn(before: Tensor, now: Tensor) -> Tensor:
    """By how much features [N, size] have turned: 1 less their cosine, the mean over examples."""
    return 1 - F.cosine_similarity(now, before, dim=1).mean()


def _within_tasks(before: Tensor, now: Tensor, among: Tensor, task_of: Tensor) -> Tensor:
    """All tasks at once, so that a step costs the same however many there are."""
    together = ((task_of[:, None] == task_of) & among & among[:, None]).double()
    said, says = (_log_shares(x, among, together) for x in (before, now))
    tasks = (among / together.sum(dim=1).clamp(min=1)).sum()
    return ((said.exp() * (said - says)).masked_fill(~among, 0.0).sum() / tasks / len(now)).to(now.dtype)


def _log_shares(logits: Tensor, among: Tensor, together: Tensor) -> Tensor:
    # In doubles: beside the highest of all logits, those of another task may all be tiny.
    logits = logits.double().masked_fill(~among, NEVER)
    logits = logits - logits.detach().max(dim=1, keepdim=True).values
    total = logits.exp() @ together
    return logits - torch.where(among, total, 1.0).clamp(min=1e-300).log()
