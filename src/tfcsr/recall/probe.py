"""The Active Recall Probe: asking a model what it still recalls of its buffer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tfcsr.models.predict import predict


@dataclass(frozen=True)
class Recall:
    """What a probe found, in percent."""

    overall: float
    per_class: dict[int, float]
    asked: dict[int, int] = field(default_factory=dict)  # how many examples of each class

    def of(self, labels: Iterable[int]) -> float | None:
        """The recall of these classes together; None where nothing was asked of them."""
        asked = {label: self.asked[label] for label in labels if label in self.asked}
        if not asked:
            return None
        return sum(self.per_class[label] * n for label, n in asked.items()) / sum(asked.values())


def probe(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    classes: Tensor,
    prepare: Callable[[Tensor], Tensor] = lambda x: x,
    *,
    train_mode: bool = False,
) -> Recall:
    """The recall of these examples, with the model's choice restricted to `classes`, those present in the buffer.

    Without gradients and, but for train mode, without any trace in the model: a probe measures, it does not teach.
    """
    return score(predict(model, x, prepare, train_mode=train_mode), y, classes)


def score(found: Tensor, y: Tensor, classes: Tensor) -> Recall:
    """The recall that a model's scores for these examples amount to."""
    return graded(classes[found[:, classes].argmax(dim=1)], y, found.shape[1])


def graded(chosen: Tensor, y: Tensor, classes: int) -> Recall:
    """The recall that these answers amount to."""
    asked = torch.bincount(y, minlength=classes).tolist()
    right = torch.bincount(y[chosen == y], minlength=classes).tolist()
    counts = {label: n for label, n in enumerate(asked) if n}
    per_class = {label: 100 * right[label] / n for label, n in counts.items()}
    return Recall(100 * sum(right) / len(y), per_class, counts)
