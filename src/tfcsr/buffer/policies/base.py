"""What a policy decides: which of the examples there are, old and new, the buffer holds."""

import copy
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tfcsr.late import torch
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(frozen=True)
class Field:
    """What is stored beside an example under some name: its shape and type, what an empty slot holds, and, where the
    shape depends on the number of classes, what stands there for a class that came after the example was stored.
    """

    shape: tuple[int, ...]
    dtype: "torch.dtype"
    empty: float = 0
    later: float = 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def tensor(self, capacity: int, device: "torch.device | str") -> "Tensor":
        return torch.full((capacity, *self.shape), self.empty, dtype=self.dtype, device=device)


@dataclass(frozen=True)
class Candidates:
    """The examples to choose among: first those in the buffer, slot by slot, then those that arrive, in their order."""

    source: "Tensor"  # where those that arrive are found
    y: "Tensor"  # of all, on the CPU
    stored: Mapping[str, "Tensor"]  # every field of those in the buffer; `x` only where it is not on disk
    capacity: int
    seen: int  # how many had arrived before
    features: "Callable[[Tensor], Tensor]"  # what the network makes of examples, for whoever asks
    # Of examples and their labels, two factors: the loss's gradient in the last layer is the outer product of an
    # example's error (what the network answers, less the label) and its features.
    gradients: "Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]"
    rows: "Tensor | None" = None  # which of the source arrive; None: all of it
    read: "Callable[[Tensor], Tensor] | None" = None  # some of those in the buffer, by slot, where they lie on disk

    @property
    def arriving(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def held(self) -> int:
        return len(self.y) - self.arriving

    @functools.cached_property
    def x(self) -> "Tensor":
        """Those that arrive, all at once. They may be more than memory holds: `arrived` fetches some."""
        return self.source if self.rows is None else self.source[self.rows.to(self.source.device)]

    def old(self, slots: "Tensor") -> "Tensor":
        """Some of those in the buffer, by slot. They may be more than memory holds, as a whole."""
        if self.read is not None:
            return self.read(slots)
        held = self.stored["x"]
        return held[slots.to(held.device)]

    def arrived(self, numbers: "Tensor") -> "Tensor":
        """Some of those that arrive, by number."""
        rows = numbers if self.rows is None else self.rows[numbers]
        return self.source[rows.to(self.source.device)]


class Policy(ABC):
    """Made anew for each run, with the values of its options. What it sets on itself is saved with the run."""

    options: ClassVar[tuple[Option, ...]] = ()
    fields: ClassVar[Mapping[str, Field]] = {}  # what it stores beside each example, within the same budget

    @abstractmethod
    def keep(self, candidates: Candidates, generator: "Generator") -> "Tensor":
        """Which candidate each slot holds from now on, by number; at most `capacity`, each once."""

    def beside(self, kept: "Tensor") -> "dict[str, Tensor]":
        """The values of its `fields` for what `keep` has just answered."""
        return {}

    def forget(self, label: int) -> None:  # noqa: B027 - most have nothing to forget
        """A class's examples have been taken out of the buffer."""

    def state_dict(self) -> dict[str, Any]:
        return copy.deepcopy(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if any(callable(getattr(type(self), name, None)) for name in state):
            raise ValueError("no state of a policy")
        vars(self).update(copy.deepcopy(state))
