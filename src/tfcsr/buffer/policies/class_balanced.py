"""Class-balanced reservoir (Chrysakis & Moens 2020): of each class as many examples as of the others."""

from typing import TYPE_CHECKING

from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Candidates, Policy
from tfcsr.late import torch
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Generator, Tensor

MOST_PER_CLASS = "at most so many examples of each class, even where there is room for more; 0: as many as fit"


@POLICIES.add("class-balanced")
class ClassBalancedReservoir(Policy):
    """Once the buffer is full, an example of a class that is not and never was the largest displaces one of the largest
    class, drawn at random; one of a class that is or was, one of its own with probability kept / seen of that class. So
    does one of a class that has `most_per_class` examples, whether the buffer is full or not.
    """

    options = (Option("most_per_class", int, 0, MOST_PER_CLASS, low=0),)

    def __init__(self, most_per_class: int = 0) -> None:
        self.most_per_class = most_per_class
        self.seen: dict[int, int] = {}  # of each class
        self.full: list[int] = []  # classes that are or were the largest of a full buffer

    def keep(self, candidates: Candidates, generator: "Generator") -> "Tensor":
        held, labels = candidates.held, candidates.y.tolist()
        slots = list(range(held))
        of_class: dict[int, list[int]] = {}
        for slot in slots:
            of_class.setdefault(labels[slot], []).append(slot)
        # Two numbers per example, used or not, so that feeding in pieces changes nothing.
        drawn = torch.rand((len(labels) - held, 2), dtype=torch.float64, generator=generator).tolist()
        for number, (first, second) in enumerate(drawn, start=held):
            label = labels[number]
            self.seen[label] = self.seen.get(label, 0) + 1
            own = of_class.setdefault(label, [])
            enough = 0 < self.most_per_class <= len(own)
            if len(slots) < candidates.capacity and not enough:
                own.append(len(slots))
                slots.append(number)
                continue
            largest = max(map(len, of_class.values()))
            if len(slots) == candidates.capacity:
                self.full += [c for c, kept in of_class.items() if len(kept) == largest and c not in self.full]
            if label not in self.full and not enough:
                # The lowest label among equals, and its examples by slot: neither depends on how the stream was cut.
                victims = sorted(of_class[min(c for c, kept in of_class.items() if len(kept) == largest)])
                slot = victims[int(first * largest)]
                of_class[labels[slots[slot]]].remove(slot)
                own.append(slot)
                slots[slot] = number
            elif first * self.seen[label] < len(own):
                slots[sorted(own)[int(second * len(own))]] = number
        return torch.tensor(slots, dtype=torch.int64)

    def forget(self, label: int) -> None:
        self.seen.pop(label, None)
        self.full = [other for other in self.full if other != label]
