"""Reservoir sampling (Vitter 1985): every example seen so far is in the buffer with the same probability."""

import torch
from torch import Generator, Tensor

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates, Policy


@POLICIES.add("reservoir")
class Reservoir(Policy):
    """Example number t (from 0) goes to slot floor(u (t + 1)), u uniform, if that is a slot at all; while the buffer
    fills, to slot t. A later example displaces an earlier one in its slot. One random number per example, used or not,
    so that feeding in pieces changes nothing.
    """

    def keep(self, candidates: Candidates, generator: Generator) -> Tensor:
        held, seen, capacity = candidates.held, candidates.seen, candidates.capacity
        arriving = candidates.arriving
        number = torch.arange(seen, seen + arriving, dtype=torch.float64)
        drawn = torch.rand(arriving, dtype=torch.float64, generator=generator)
        # Where a class was taken out, slots are free again although more has been seen.
        place = torch.arange(held, held + arriving, dtype=torch.float64)
        slot = torch.where(place < capacity, place, (drawn * (number + 1)).floor()).long()
        taken = (slot < capacity).nonzero().squeeze(1)
        # All at once: of several examples for one slot the last one stays, as it would one by one.
        size = min(capacity, held + arriving)
        return torch.arange(size).scatter_reduce(0, slot[taken], held + taken, "amax")
