"""Reservoir sampling (Vitter 1985): every example seen so far is in the buffer with the same probability."""

import torch
from torch import Generator, Tensor

from tfcsr.buffer.policies import POLICIES


@POLICIES.add("reservoir")
def reservoir(seen: int, capacity: int, incoming: int, generator: Generator) -> Tensor:
    """The slot each of the incoming examples goes to, or -1. A later example displaces an earlier one in its slot.

    Example number t (from 0) goes to slot floor(u (t + 1)), u uniform, if that is a slot at all; while the buffer
    fills, to slot t. One random number per example, used or not, so that feeding in pieces changes nothing.
    """
    number = torch.arange(seen, seen + incoming, dtype=torch.float64)
    drawn = torch.rand(incoming, dtype=torch.float64, generator=generator)
    slot = torch.where(number < capacity, number, (drawn * (number + 1)).floor()).long()
    return torch.where(slot < capacity, slot, -1)
