"""Herding (Welling 2009, as in iCaRL): the examples whose mean feature stays nearest to their class's."""

from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates, Field, Policy


@POLICIES.add("herding")
class Herding(Policy):
    """Every class seen has the same share of the capacity, or one more. A class that arrives is herded; one that was
    there keeps the first of its own, in the order in which they were chosen.
    """

    fields: ClassVar = {"rank": Field((), torch.int32)}  # of an example within its class

    def keep(self, candidates: Candidates, generator: Generator) -> Tensor:
        held, labels, device = candidates.held, candidates.y, candidates.x.device
        rank = candidates.stored["rank"][:held].cpu()
        classes, arriving = labels.unique().tolist(), set(labels[held:].tolist())
        share, left = divmod(candidates.capacity, max(1, len(classes)))
        kept = [torch.zeros(0, dtype=torch.int64)]
        for place, label in enumerate(classes):
            count = share + (place < left)
            old = (labels[:held] == label).nonzero().squeeze(1)
            chosen = old[rank[old].argsort()]
            if label in arriving:
                new = (labels[held:] == label).nonzero().squeeze(1)
                held_x = candidates.stored["x"]
                arrived = candidates.x[new.to(device)].to(held_x.device)  # which may lie elsewhere
                pool = torch.cat([held_x[old.to(held_x.device)], arrived])
                chosen = torch.cat([old, held + new])[herded(candidates.features(pool), count)]
            kept.append(chosen[:count])
        self._ranks = torch.cat([torch.arange(len(part), dtype=torch.int32) for part in kept])
        return torch.cat(kept)

    def beside(self, kept: Tensor) -> dict[str, Tensor]:
        return {"rank": self._ranks}

    def state_dict(self) -> dict[str, object]:
        return {}  # the ranks are in the buffer


def herded(features: Tensor, count: int) -> Tensor:
    """The first `count` examples of a class, each the one that brings the mean of those chosen so far nearest to the
    mean of all. Features are normalised to length 1.
    """
    phi = normalize(features.float(), dim=1)
    mean, total = phi.mean(dim=0), torch.zeros_like(phi[0])
    free = torch.ones(len(phi), dtype=torch.bool, device=phi.device)
    chosen = []
    for k in range(1, min(count, len(phi)) + 1):
        distance = (mean - (phi + total) / k).square().sum(dim=1)
        best = distance.masked_fill(~free, torch.inf).argmin()
        free[best] = False
        total = total + phi[best]
        chosen.append(best)
    return torch.stack(chosen).cpu() if chosen else torch.zeros(0, dtype=torch.int64)
