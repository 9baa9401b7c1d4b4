"""Gradient matching: the examples whose mean gradient in the last layer stays nearest to their class's.

In the manner of GRAD-MATCH (Killamsetty et al. 2021) and CRAIG (Mirzasoleiman et al. 2020), and neither of them: no
example has a weight, and the choice is as greedy as herding's. Like both it looks at the last layer only.
"""

import torch
from torch import Tensor

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates
from tfcsr.buffer.policies.ranked import Ranked


@POLICIES.add("gradient")
class GradientMatching(Ranked):
    """A class that arrives is matched by its gradients in the network as it is now."""

    def ordered(self, candidates: Candidates, pool: Tensor, label: int, count: int) -> Tensor:
        labels = torch.full((len(pool),), label, device=pool.device)
        return gradient_matched(*candidates.gradients(pool, labels), count)


def gradient_matched(errors: Tensor, features: Tensor, count: int) -> Tensor:
    """The first `count` examples of a class, each the one that brings the mean gradient of those chosen so far nearest
    to the mean of all. An example's gradient is the outer product of its error and its features.
    """
    # No outer product is built: <e f', d g'> = <e, d> <f, g>. Doubles, since what is compared is a difference.
    errors, features = errors.double(), features.double()
    mean = errors.T @ features / max(1, len(errors))
    to_mean = ((errors @ mean) * features).sum(dim=1)
    to_chosen = torch.zeros_like(to_mean)
    square = errors.square().sum(dim=1) * features.square().sum(dim=1)
    free = torch.ones_like(to_mean, dtype=torch.bool)
    chosen = []
    for k in range(1, min(count, len(errors)) + 1):
        # k^2 times the squared distance of (chosen + this one) / k from the mean, less what is the same for all.
        distance = square + 2 * (to_chosen - k * to_mean)
        best = distance.masked_fill(~free, torch.inf).argmin()
        free[best] = False
        to_chosen += (errors @ errors[best]) * (features @ features[best])
        chosen.append(best)
    return torch.stack(chosen).cpu() if chosen else torch.zeros(0, dtype=torch.int64)
