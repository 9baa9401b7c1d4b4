"""What the policies that choose within each class have in common: equal shares, and an order that is kept."""

import itertools
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Generator, Tensor

from tfcsr.buffer.policies.base import Candidates, Field, Policy


class Ranked(Policy):
    """Every class seen has the same share of the capacity, or one more. A class that arrives is chosen from anew; one
    that was there keeps the first of its own, in the order in which they were chosen.
    """

    fields: ClassVar = {"rank": Field((), torch.int32)}  # of an example within its class

    @abstractmethod
    def ordered(self, candidates: Candidates, pool: Tensor, label: int, count: int) -> Tensor:
        """The first `count` examples of the pool, all of this class, by number, in the order in which they are chosen;
        all of them where there are fewer. On the CPU.
        """

    def keep(self, candidates: Candidates, generator: Generator) -> Tensor:
        held, labels = candidates.held, candidates.y
        rank = candidates.stored["rank"][:held].cpu()
        classes, arriving = labels.unique().tolist(), set(labels[held:].tolist())
        share, left = divmod(candidates.capacity, max(1, len(classes)))
        kept = [torch.zeros(0, dtype=torch.int64)]
        olds, news = _by_class(labels[:held], classes), _by_class(labels[held:], classes)
        for place, (label, old, new) in enumerate(zip(classes, olds, news, strict=True)):
            count = share + (place < left)
            chosen = old[rank[old].argsort()]
            if label in arriving:
                before = candidates.old(old)
                pool = torch.cat([before, candidates.arrived(new).to(before.device)])  # which may lie elsewhere
                chosen = torch.cat([old, held + new])[self.ordered(candidates, pool, label, count)]
            kept.append(chosen[:count])
        self._ranks = torch.cat([torch.arange(len(part), dtype=torch.int32) for part in kept])
        return torch.cat(kept)

    def beside(self, kept: Tensor) -> dict[str, Tensor]:
        return {"rank": self._ranks}

    def state_dict(self) -> dict[str, object]:
        return {}  # the ranks are in the buffer


def _by_class(labels: Tensor, classes: list[int]) -> tuple[Tensor, ...]:
    """Where the examples of each class are, in their order: sorted once, not looked for class by class."""
    order = labels.argsort(stable=True)
    bounds = torch.searchsorted(labels[order], torch.tensor([*classes, max(classes, default=0) + 1])).tolist()
    return tuple(order[start:stop] for start, stop in itertools.pairwise(bounds))
