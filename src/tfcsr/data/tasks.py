"""A dataset cut into tasks, on the compute device."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from tfcsr.data.dataset import Dataset
from tfcsr.data.mapped import Mapped
from tfcsr.errors import DataError
from tfcsr.generators import derived_seed


@dataclass(frozen=True)
class Examples:
    """Examples as they are stored, [N, ...], and their labels, which are on the compute device. The examples may lie
    elsewhere, in host memory or, `mapped`, in a file.
    """

    x: Tensor
    y: Tensor
    mapped: Mapped | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def apart(self) -> bool:
        """Whether a step cannot simply read them where they lie."""
        return self.mapped is not None or self.x.device != self.y.device

    def release(self) -> None:
        """Give back the memory that looking at examples in a file has taken."""
        if self.mapped is not None:
            self.mapped.release()


@dataclass(frozen=True)
class Task:
    """The examples that arrive together and the classes they are of; numbered from 1. What a method gets to see of it
    is this and nothing else.
    """

    number: int
    classes: tuple[int, ...]
    train: Examples
    held_out: Examples
    test: Examples


def cut(classes: int, tasks: int, order: int | tuple[int, ...]) -> list[tuple[int, ...]]:
    """The classes of each task: slices of the order, the last one smaller where it does not come out even.

    A seed gives torch's permutation, as the paper drew it.
    """
    if isinstance(order, int):
        order = tuple(torch.randperm(classes, generator=torch.Generator().manual_seed(order)).tolist())
    size = -(-classes // tasks)
    starts = list(range(0, classes, size))
    if len(starts) < tasks:  # 10 classes in 7 tasks: slices of 2 would make 5 tasks, so the first 3 get one more
        starts = [i * (classes // tasks) + min(i, classes % tasks) for i in range(tasks)]
    return [order[a:b] for a, b in zip(starts, [*starts[1:], classes], strict=True)]


# A label that many classes share is not named after them all.
LONGEST_NAME = 40


class TaskSequence:
    """The tasks of a benchmark in the order they arrive. Each call of `task` copies that task's examples alone.

    `classes` are the labels that each task brings. In scenario `domain` these are the same in all: a class's label is
    its place within its task. Where a `change` is given, every task has all classes, changed by it.
    """

    def __init__(
        self,
        dataset: Dataset,
        tasks: int,
        class_order: int | tuple[int, ...],
        device: torch.device | str = "cpu",
        *,
        scenario: str = "class",
        repeat: float = 0.0,
        change: Callable[[Tensor, int], Tensor] | None = None,
        max_per_class: int = 0,
    ) -> None:
        self._device, self._change, self._repeat = device, change, repeat
        names = dataset.class_names
        everyone = tuple(range(len(names)))
        # By the labels of the dataset.
        self._members = [everyone] * tasks if change else cut(len(names), tasks, class_order)
        self._label = np.arange(len(names))
        self.classes, self.class_names = self._members, tuple(names)
        if scenario == "domain" and change is None:
            for members in self._members:
                self._label[list(members)] = np.arange(len(members))
            self.classes = [tuple(range(len(members))) for members in self._members]
            self.class_names = _shared_names(names, self._members)
        # Changed images are made on the CPU, where they are the same bits on every machine.
        where = "cpu" if change else device
        self._train = (torch.from_numpy(dataset.train_x).to(where), dataset.train_y)
        self._max_per_class = max_per_class
        # One tensor with the test examples of all tasks in a row, so that an evaluation is one pass.
        of_class = _by_class(dataset.test_y, len(names))
        rows = [np.concatenate([of_class[label] for label in members]) for members in self._members]
        self.test_sizes = [len(r) for r in rows]
        self._test_starts = [0, *accumulate(self.test_sizes)]
        self._rows = _by_class(dataset.train_y, len(names))
        most = max_per_class or len(dataset.train_y)
        self._per_class = np.minimum(np.bincount(dataset.train_y), most)
        new = [int(self._per_class[list(members)].sum()) for members in self._members]
        known = [0, *accumulate(new)][:-1]
        self.train_sizes = [size + self._repeats(size, before) for size, before in zip(new, known, strict=True)]
        test = (torch.from_numpy(dataset.test_x).to(where), dataset.test_y)
        if change is None:
            self.test = self._examples(test, np.concatenate(rows))
        else:
            parts = [self._examples(test, part, number) for number, part in enumerate(rows, start=1)]
            self.test = Examples(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))

    def __len__(self) -> int:
        return len(self.classes)

    def task_of(self) -> Tensor:
        """The number of the task that brings each class."""
        found = torch.zeros(len(self.class_names), dtype=torch.int64)
        for number, classes in enumerate(self.classes, start=1):
            found[list(classes)] = number
        return found.to(self._device)

    def require_held_out(self, share: float) -> None:
        """Refuses a share that some class cannot give, before a run has begun."""
        for label, count in enumerate(self._per_class.tolist()):
            _held_out(label, count, share)

    def task(self, number: int, held_out: float = 0.0, seed: int = 0) -> Task:
        """Task `number`, from 1; that share of each class's training examples set aside, at random by the seed."""
        train, aside = self._split(self._members[number - 1], held_out, seed)
        classes = self.classes[number - 1]
        if self._repeat and number > 1:
            again = self._again(number, len(train), held_out, seed)
            train = np.concatenate([train, again])
            classes += tuple(np.unique(self._train[1][again]).tolist())
        test = slice(*self._test_starts[number - 1 : number + 1])
        return Task(
            number,
            classes,
            self._examples(self._train, train, number),
            self._examples(self._train, aside, number),
            Examples(self.test.x[test], self.test.y[test]),
        )

    def held_out(self, share: float, seed: int) -> Examples:
        """All that is set aside, of every task: to judge a finished run by."""
        parts = [
            self._examples(self._train, self._split(members, share, seed)[1], number)
            for number, members in enumerate(self._members, start=1)
        ]
        return Examples(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))

    def _repeats(self, new: int, known: int) -> int:
        """How many examples of classes seen before come with so many new ones, where there are so many known."""
        return min(known, round(new * self._repeat / (1 - self._repeat)))

    def _again(self, number: int, new: int, held_out: float, seed: int) -> np.ndarray:
        """The examples of earlier tasks' classes that come again: some of all there are, drawn anew for each task."""
        known = self._split(sum(self._members[: number - 1], ()), held_out, seed)[0]
        drawn = np.random.default_rng(derived_seed(seed, f"repeat/{number}")).permutation(len(known))
        return known[drawn[: self._repeats(new, len(known))]]

    def _split(self, classes: tuple[int, ...], held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        train, aside = [], []
        for label in classes:
            rows = self._rows[label]
            if self._max_per_class:
                rows = rows[: self._max_per_class]
            away = _held_out(label, len(rows), held_out)
            chosen = np.zeros(len(rows), bool)
            chosen[np.random.default_rng(derived_seed(seed, f"held-out/{label}")).permutation(len(rows))[:away]] = True
            train.append(rows[~chosen])
            aside.append(rows[chosen])
        return np.concatenate(train), np.concatenate(aside)

    def _examples(self, source: tuple[Tensor, np.ndarray], rows: np.ndarray, number: int = 0) -> Examples:
        x, y = source
        chosen = x[torch.from_numpy(rows).to(x.device)]
        if self._change is not None:
            chosen = self._change(chosen, number)
        return Examples(chosen.to(self._device), torch.from_numpy(self._label[y[rows]]).to(self._device))


def _shared_names(names: tuple[str, ...], members: list[tuple[int, ...]]) -> tuple[str, ...]:
    """What a label is called that a class of each task has."""
    joined = ["/".join(names[task[place]] for task in members) for place in range(len(members[0]))]
    return tuple(name if len(name) <= LONGEST_NAME else f"label {place}" for place, name in enumerate(joined))


def _held_out(label: int, count: int, share: float) -> int:
    """How many of a class's examples are set aside: some, and not all."""
    away = round(share * count)
    if share and not 0 < away < count:
        raise DataError(
            f"class {label} has {count} training examples: too few to hold out {share:g} of them;"
            " raise max_per_class or held_out"
        )
    return away


def _by_class(labels: np.ndarray, classes: int) -> list[np.ndarray]:
    """Where each class's examples are, ascending. Found once: to look for each class in all labels takes as long as
    there are classes times examples.
    """
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=classes))
    return np.split(order, ends[:-1])
