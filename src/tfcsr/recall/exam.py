"""The exam: the share of the memory that is never trained on, so that its recall is honest."""

from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies.class_balanced import ClassBalancedReservoir
from tfcsr.data.tasks import Examples


class Exam:
    """Examples that are kept, and are neither replayed nor learned when they arrive: to the network they are what test
    data would be. Of each class as many as of the others.
    """

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, ...],
        device: torch.device | str = "cpu",
        *,
        share: float = 0.0,
        dtype: torch.dtype = torch.uint8,
        on_disk: bool = False,
        folder: Path | None = None,
    ) -> None:
        policy = ClassBalancedReservoir()
        self.kept = Buffer(capacity, shape, policy, device, dtype=dtype, on_disk=on_disk, folder=folder)
        self.share = share
        self.rows = torch.zeros(0, dtype=torch.int64)  # of the task in hand: which of its examples are in the exam

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def capacity(self) -> int:
        return self.kept.capacity

    def take(self, examples: Examples, generator: Generator) -> None:
        """Set some of a task's examples aside, before anything is learned of it; of each class its share at most, so
        that a small one is not all exam.
        """
        if self.capacity == 0:
            return
        labels = examples.y.cpu()
        order = torch.randperm(len(labels), generator=generator)
        by_class = order[labels[order].argsort(stable=True)]
        counts = torch.bincount(labels)
        rank = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[by_class]]
        offered = by_class[rank < (counts * self.share).long()[labels[by_class]]]
        changes = self.kept.add(examples.x, examples.y, generator, rows=offered)
        self.rows = changes.arrived()[1].cpu().sort().values

    def others(self, count: int) -> Tensor | None:
        """The numbers of a task's examples, of which there are so many, that may be learned; None: all of them."""
        if len(self.rows) == 0:
            return None
        learned = torch.ones(count, dtype=torch.bool)
        learned[self.rows] = False
        return learned.nonzero().squeeze(1)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": self.kept.state_dict(), "rows": self.rows.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.kept.load_state_dict(state["kept"])
        self.rows = state["rows"].to("cpu", torch.int64, copy=True)
