"""Herding (Welling 2009, as in iCaRL): the examples whose mean feature stays nearest to their class's."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates
from tfcsr.buffer.policies.ranked import Ranked


@POLICIES.add("herding")
class Herding(Ranked):
    """A class that arrives is herded."""

    def ordered(self, candidates: Candidates, pool: Tensor, label: int, count: int) -> Tensor:
        return herded(candidates.features(pool), count)


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
