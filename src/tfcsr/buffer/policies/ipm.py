"""Iterative Projection and Matching (Zaeemzadeh et al. 2019): each example along what those before it leave out."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates
from tfcsr.buffer.policies.ranked import Ranked

# Rows are of length 1. Where less than this is left of them, that is the rounding of the network.
NOTHING = 1e-5
# Relative: examples that are the same may differ by the rounding of a product.
ALIKE = 1e-9
# The residual of the leading eigenvector, relative to its eigenvalue.
CLOSE = 1e-7


@POLICIES.add("ipm")
class IterativeProjectionMatching(Ranked):
    """A class that arrives is projected and matched."""

    def ordered(self, candidates: Candidates, pool: Tensor, label: int, count: int) -> Tensor:
        return projected(candidates.features(pool), count)


def projected(features: Tensor, count: int) -> Tensor:
    """The first `count` examples of a class: each the one that lies most along the leading direction of all; then that
    example's own direction is taken out of all. Features are normalised to length 1.

    The paper asks for no more examples than there are directions. Where none is left, it begins again with the examples
    that are not chosen yet.
    """
    # A row that is no number at all has no direction, as a row of zeros has none.
    rows = normalize(features.double(), dim=1).nan_to_num(0, 0, 0)
    if rows.shape[1] > len(rows):
        # Only inner products count: so no more coordinates than rows are needed.
        rows = torch.linalg.qr(rows.T, mode="r").R.T
    chosen: list[int] = []
    left = np.arange(len(rows))
    while len(left) and len(chosen) < count:
        found = _one_round(rows[torch.from_numpy(left).to(rows.device)], count - len(chosen))
        # Where no row has a direction, they come in their order.
        found = found or list(range(min(count - len(chosen), len(left))))
        chosen += left[found].tolist()
        left = np.delete(left, found)
    return torch.tensor(chosen, dtype=torch.int64)


def _one_round(rows: Tensor, count: int) -> list[int]:
    """As many rows as there are directions, or `count`."""
    # The small matrix is on the CPU wherever the rows are, since what is done with it are many small steps.
    gram = (rows.T @ rows).cpu().numpy()
    taken = np.zeros((0, len(gram)))  # orthonormal, the directions of those chosen
    chosen: list[int] = []
    while len(chosen) < count and gram.trace() > len(rows) * NOTHING**2:
        leading = torch.from_numpy(_leading(gram)).to(rows.device)
        # The leading direction is orthogonal to those taken: the rows themselves give what their rests would.
        match = (rows @ leading).abs()
        match[chosen] = -1
        best = int((match >= match.max() * (1 - ALIKE)).int().argmax())  # the first of equals
        rest = rows[best].cpu().numpy()
        for _ in range(2):  # once does not suffice where little is left
            rest = rest - (taken @ rest) @ taken
        rest /= np.linalg.norm(rest)
        taken = np.concatenate([taken, rest[None]])
        along = gram @ rest
        along -= (rest @ along) / 2 * rest
        across = np.outer(rest, along)
        gram -= across + across.T
        chosen.append(best)
    return chosen


def _leading(gram: np.ndarray) -> np.ndarray:
    """The eigenvector of the largest eigenvalue of a Gram matrix that is not 0, of length 1, by Lanczos's method. All
    eigenvectors would take thirty times as long.
    """
    size = len(gram)
    # No axis is left out of the start. It is the same each time, so the choice is too.
    start = gram @ np.random.default_rng(0).standard_normal(size)
    basis = np.empty((size, size))
    basis[0] = start / np.linalg.norm(start)
    inner, outer = np.zeros(size), np.zeros(size)  # the matrix within the basis is tridiagonal: these two
    for steps in range(1, size + 1):
        known = basis[:steps]
        further = gram @ known[-1]
        inner[steps - 1] = further @ known[-1]
        for _ in range(2):
            further -= (known @ further) @ known
        outer[steps - 1] = length = np.sqrt(further @ further)
        spent = steps == size or length <= CLOSE * inner[0]
        if spent or steps % 4 == 0:
            # Only the lower triangle is read.
            values, vectors = np.linalg.eigh(np.diag(inner[:steps]) + np.diag(outer[: steps - 1], -1))
            if spent or length * abs(vectors[-1, -1]) <= CLOSE * values[-1]:
                break
        basis[steps] = further / length
    leading: np.ndarray = vectors[:, -1] @ known
    return leading
