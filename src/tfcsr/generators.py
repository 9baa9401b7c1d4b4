"""Every kind of randomness has its own generator, derived from the seed by name.

So one kind cannot disturb another: a probe draws from its own and leaves the training as it was, and two methods with
one seed see the same initial weights, the same order of examples and the same buffer, which makes comparisons paired.
"""

import hashlib
from typing import Any

import torch

NAMES = ("order", "reservoir", "replay", "augmentation")


def derived_seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8]) >> 1


class Generators:
    """The generators a run keeps from its first step to its last. They live on the CPU, so a GPU draws the same."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._named = {name: torch.Generator().manual_seed(derived_seed(seed, name)) for name in NAMES}

    def __getitem__(self, name: str) -> torch.Generator:
        return self._named[name]

    def at(self, moment: str) -> torch.Generator:
        """One that begins anew at this moment of the run, whatever was drawn before."""
        return torch.Generator().manual_seed(derived_seed(self._seed, moment))

    def state_dict(self) -> dict[str, Any]:
        return {name: generator.get_state() for name, generator in self._named.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, generator in self._named.items():
            generator.set_state(state[name])
