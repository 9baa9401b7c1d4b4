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
        from tfcsr.buffer.slots import SlotsOfClasses

        held, labels = candidates.held, candidates.y
        slots = torch.arange(min(candidates.capacity, len(labels))).numpy()
        classes = SlotsOfClasses(labels[:held].numpy(), self.full)
        # Two numbers per example, used or not, so that feeding in pieces changes nothing.
        drawn = torch.rand((len(labels) - held, 2), dtype=torch.float64, generator=generator).tolist()
        place = held
        for number, (label, (first, second)) in enumerate(zip(labels[held:].tolist(), drawn, strict=True), start=held):
            self.seen[label] = self.seen.get(label, 0) + 1
            own = classes.of(label)
            enough = 0 < self.most_per_class <= len(own)
            full = place == candidates.capacity
            if not full and not enough:
                classes.add(label, place)
                slots[place] = number
                place += 1
                continue
            largest = classes.largest() if full else 0
            if label not in classes.full and not enough:
                # The lowest label among equals, and its examples by slot: neither depends on how the stream was cut.
                slot = classes.take(min(classes.of_size[largest]), int(first * largest))
                classes.add(label, slot)
                slots[slot] = number
            elif first * self.seen[label] < len(own):
                slots[own[int(second * len(own))]] = number
        self.full = list(classes.full)
        return torch.from_numpy(slots[:place])

    def forget(self, label: int) -> None:
        self.seen.pop(label, None)
        self.full = [other for other in self.full if other != label]
