"""Which slots of a buffer each class has, for policies that balance classes."""

import bisect
from array import array

import numpy as np

# Of slots that are kept in order together.
BLOCK = 2048


class SlotsOfClasses:
    """The slots that each class has, and how many: all that is asked of them takes about as long for a million."""

    def __init__(self, labels: np.ndarray, full: list[int]) -> None:
        order = np.argsort(labels, kind="stable")
        classes, starts = np.unique(labels[order], return_index=True)
        parts = dict(zip(classes.tolist(), np.split(order, starts[1:]), strict=True)) if len(labels) else {}
        # In the order in which they come in the buffer, as they would one by one.
        self.slots = {label: Slots(parts[label]) for label in sorted(parts, key=lambda label: int(parts[label][0]))}
        self.full = dict.fromkeys(full)  # a set that keeps its order
        self.of_size: dict[int, set[int]] = {}  # the classes with so many slots
        for label, slots in self.slots.items():
            self.of_size.setdefault(len(slots), set()).add(label)
        self._most = max(self.of_size, default=0)
        self._changed = True  # which classes are the largest, since that was asked

    def of(self, label: int) -> "Slots":
        return self.slots.get(label) or self.slots.setdefault(label, Slots(np.zeros(0, np.int64)))

    def largest(self) -> int:
        """The size of the largest classes; those are full from now on."""
        if self._changed:
            new = self.of_size[self._most] - self.full.keys()
            if new:
                self.full |= dict.fromkeys(label for label in self.slots if label in new)
            self._changed = False
        return self._most

    def add(self, label: int, slot: int) -> None:
        own = self.slots[label]
        own.add(slot)
        self._count(label, len(own) - 1, len(own))

    def take(self, label: int, number: int) -> int:
        """Take a class's slot away: the so-and-so-many-th in their order."""
        own = self.slots[label]
        slot = own.pop(number)
        self._count(label, len(own) + 1, len(own))
        return slot

    def _count(self, label: int, before: int, now: int) -> None:
        of_size = self.of_size
        there = of_size.get(before)
        if there is not None:
            there.discard(label)
            if not there:
                del of_size[before]
        of_size.setdefault(now, set()).add(label)
        if now >= self._most or before == self._most:
            self._changed = True
            self._most = now if now > self._most else self._most if self._most in of_size else max(of_size)


class Slots:
    """Numbers in their order, in blocks of a few thousand: to add or take one moves its block alone."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._blocks = [
            array("q", numbers[start : start + BLOCK].tobytes()) for start in range(0, max(1, len(numbers)), BLOCK)
        ]
        self._ends = np.cumsum([len(block) for block in self._blocks])  # how many there are up to the end of a block

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int) -> int:
        block, within = self._find(number)
        return self._blocks[block][within]

    def _find(self, number: int) -> tuple[int, int]:
        if len(self._blocks) == 1:
            return 0, number
        block = int(self._ends.searchsorted(number, "right"))
        return block, number - (int(self._ends[block - 1]) if block else 0)

    def add(self, value: int) -> None:
        place = max(0, bisect.bisect_right(self._blocks, value, key=_first) - 1)
        block = self._blocks[place]
        bisect.insort(block, value)
        self._ends[place:] += 1
        if len(block) > 2 * BLOCK:
            self._blocks[place : place + 1] = [block[:BLOCK], block[BLOCK:]]
            self._ends = np.cumsum([len(block) for block in self._blocks])

    def pop(self, number: int) -> int:
        place, within = self._find(number)
        value = self._blocks[place].pop(within)
        self._ends[place:] -= 1
        if not self._blocks[place] and len(self._blocks) > 1:
            del self._blocks[place]
            self._ends = np.delete(self._ends, place)
        return value


def _first(block: "array[int]") -> int:
    return block[0] if block else -1
