"""A dataset cut into tasks, on the compute device."""

from dataclasses import dataclass

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
    """The classes that arrive together; numbered from 1. What a method gets to see of it is this and nothing else."""

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


class TaskSequence:
    """The tasks of a benchmark in the order they arrive. Each call of `task` copies that task's examples alone."""

    def __init__(
        self,
        dataset: Dataset,
        tasks: int,
        class_order: int | tuple[int, ...],
        device: torch.device | str = "cpu",
        *,
        max_per_class: int = 0,
    ) -> None:
        self.classes = cut(len(dataset.class_names), tasks, class_order)
        self._train = (torch.from_numpy(dataset.train_x).to(device), dataset.train_y)
        self._max_per_class = max_per_class
        # One tensor with the test examples of all tasks in a row, so that an evaluation is one pass.
        rows = [_rows(dataset.test_y, classes) for classes in self.classes]
        self.test_sizes = [len(r) for r in rows]
        most = max_per_class or len(dataset.train_y)
        self._per_class = np.minimum(np.bincount(dataset.train_y), most)
        self.train_sizes = [int(self._per_class[list(classes)].sum()) for classes in self.classes]
        self.test = self._examples((torch.from_numpy(dataset.test_x).to(device), dataset.test_y), np.concatenate(rows))

    def __len__(self) -> int:
        return len(self.classes)

    def require_held_out(self, share: float) -> None:
        """Refuses a share that some class cannot give, before a run has begun."""
        for label, count in enumerate(self._per_class.tolist()):
            _held_out(label, count, share)

    def task(self, number: int, held_out: float = 0.0, seed: int = 0) -> Task:
        """Task `number`, from 1; that share of each class's training examples set aside, at random by the seed."""
        classes = self.classes[number - 1]
        train, aside = self._split(classes, held_out, seed)
        start = sum(self.test_sizes[: number - 1])
        test = slice(start, start + self.test_sizes[number - 1])
        return Task(
            number,
            classes,
            self._examples(self._train, train),
            self._examples(self._train, aside),
            Examples(self.test.x[test], self.test.y[test]),
        )

    def held_out(self, share: float, seed: int) -> Examples:
        """All that is set aside, of every task: to judge a finished run by."""
        return self._examples(self._train, self._split(sum(self.classes, ()), share, seed)[1])

    def _split(self, classes: tuple[int, ...], held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        train, aside = [], []
        for label in classes:
            rows = _rows(self._train[1], (label,))
            if self._max_per_class:
                rows = rows[: self._max_per_class]
            away = _held_out(label, len(rows), held_out)
            chosen = np.zeros(len(rows), bool)
            chosen[np.random.default_rng(derived_seed(seed, f"held-out/{label}")).permutation(len(rows))[:away]] = True
            train.append(rows[~chosen])
            aside.append(rows[chosen])
        return np.concatenate(train), np.concatenate(aside)

    def _examples(self, source: tuple[Tensor, np.ndarray], rows: np.ndarray) -> Examples:
        x, y = source
        return Examples(x[torch.from_numpy(rows).to(x.device)], torch.from_numpy(y[rows]).to(x.device))


def _held_out(label: int, count: int, share: float) -> int:
    """How many of a class's examples are set aside: some, and not all."""
    away = round(share * count)
    if share and not 0 < away < count:
        raise DataError(
            f"class {label} has {count} training examples: too few to hold out {share:g} of them;"
            " raise max_per_class or held_out"
        )
    return away


def _rows(labels: np.ndarray, classes: tuple[int, ...]) -> np.ndarray:
    """Where these classes' examples are, grouped by class."""
    return np.concatenate([np.flatnonzero(labels == label) for label in classes])
