"""Every kind of randomness has its own generator, derived from the seed by name.

So one kind cannot disturb another: a probe draws from its own and leaves the training as it was, and two methods with
one seed see the same initial weights, the same order of examples and the same buffer, which makes comparisons paired.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

NAMES = ("order", "reservoir", "replay", "augmentation")


def derived_seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8]) >> 1


class Generators:
    """The generators a run keeps from its first step to its last. They live on the CPU, so a GPU draws the same. What a
    model draws itself, dropout above all, its device draws.
    """

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        self._seed = seed
        self._device = torch.device(device)
        self._named = {name: torch.Generator().manual_seed(derived_seed(seed, name)) for name in NAMES}
        self._named["dropout"] = torch.Generator().manual_seed(derived_seed(seed, "dropout"))
        if self._device.type == "cuda":
            on_device = torch.Generator(self._device).manual_seed(derived_seed(seed, "dropout"))
            self._named["dropout/device"] = on_device

    def __getitem__(self, name: str) -> torch.Generator:
        return self._named[name]

    def at(self, moment: str) -> torch.Generator:
        """One that begins anew at this moment of the run, whatever was drawn before."""
        return torch.Generator().manual_seed(derived_seed(self._seed, moment))

    def anew(self, name: str, moment: str) -> None:
        """Let the one of this name, and a device's beside it, begin anew at this moment of the run."""
        for each in (name, f"{name}/device"):
            if each in self._named:
                self._named[each].manual_seed(derived_seed(self._seed, moment))

    def borrowed(self, name: str) -> AbstractContextManager[None]:
        """What somebody else's code draws from torch's global CPU generator inside comes from the one of this name."""
        return _borrowed(self._named[name])

    @contextmanager
    def dropout(self) -> Iterator[None]:
        """What the model draws inside comes from the generator named dropout. Layers know only torch's global ones,
        which are borrowed for that and given back as they were.
        """
        with _borrowed(self._named["dropout"]), _borrowed_on_device(self._named.get("dropout/device")):
            yield

    @contextmanager
    def dropout_at(self, moment: str) -> Iterator[None]:
        """The same from generators that begin anew at this moment: for asking the model without disturbing training."""
        seed = derived_seed(self._seed, f"dropout/{moment}")
        on_device = torch.Generator(self._device).manual_seed(seed) if self._device.type == "cuda" else None
        with _borrowed(torch.Generator().manual_seed(seed)), _borrowed_on_device(on_device):
            yield

    def state_dict(self) -> dict[str, Any]:
        return {name: generator.get_state() for name, generator in self._named.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, generator in self._named.items():
            if name in state or not name.startswith("dropout"):  # which version 0.1.0 did not have
                generator.set_state(state[name])


@contextmanager
def _borrowed(generator: torch.Generator) -> Iterator[None]:
    theirs = torch.default_generator
    before = theirs.get_state()
    theirs.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(theirs.get_state())
        theirs.set_state(before)


@contextmanager
def _borrowed_on_device(generator: torch.Generator | None) -> Iterator[None]:
    """A GPU's generator is exchanged, not copied: a recorded step keeps the one it was recorded with, and moves it on
    with every replay.
    """
    if generator is None:
        yield
        return
    theirs = torch.cuda.default_generators[generator.device.index or 0]
    before = theirs.graphsafe_get_state()
    theirs.graphsafe_set_state(generator)
    try:
        yield
    finally:
        theirs.graphsafe_set_state(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's global generators begin at this seed inside, and are as they were afterwards, on every device."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed: where CUDA has yet to start, it would leave the seed behind for it.
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield
