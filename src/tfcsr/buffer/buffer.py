"""The buffer: copies of past examples within a fixed budget."""

from typing import Any

import torch
from torch import Generator, Tensor

from tfcsr.buffer.policies import POLICIES


class Buffer:
    """Holds at most `capacity` examples. What a method may still see of old tasks is in here and nowhere else."""

    def __init__(
        self, capacity: int, shape: tuple[int, ...], policy: str = "reservoir", device: torch.device | str = "cpu"
    ) -> None:
        self.policy = POLICIES.get(policy)
        self.x = torch.zeros((capacity, *shape), dtype=torch.uint8, device=device)
        self.y = torch.full((capacity,), -1, dtype=torch.int64, device=device)
        self.size = 0
        self.seen = 0

    def __len__(self) -> int:
        return self.size

    @property
    def capacity(self) -> int:
        return len(self.y)

    @property
    def nbytes(self) -> int:
        """The whole budget, filled or not."""
        return self.x.nbytes + self.y.nbytes

    def classes(self) -> Tensor:
        """The classes present, ascending."""
        present: Tensor = self.y[: self.size].unique()
        return present

    def add(self, x: Tensor, y: Tensor, generator: Generator) -> None:
        """Let these examples pass through the policy once, in order."""
        slot = self.policy(self.seen, self.capacity, len(y), generator)
        kept = (slot >= 0).nonzero().squeeze(1)
        # All at once: of several examples for one slot the last one stays, as it would one by one.
        last = torch.full((self.capacity,), -1).scatter_reduce(0, slot[kept], kept, "amax")
        filled = (last >= 0).nonzero().squeeze(1)
        source, target = last[filled].to(x.device), filled.to(x.device)
        self.x[target] = x[source]
        self.y[target] = y[source]
        self.seen += len(y)
        self.size = int((self.y >= 0).sum())

    def draw(self, sets: int, count: int, generator: Generator) -> Tensor:
        """Positions [sets, count]: each row a uniformly drawn set of different examples.

        Floyd's algorithm: its cost depends on how much is drawn, not on the capacity.
        """
        if count > self.size:
            raise ValueError(f"cannot draw {count} different examples from {self.size}")
        drawn = torch.rand((sets, count), dtype=torch.float64, generator=generator)
        # A probe draws one long row, an epoch many short ones: the loop goes over what is fewer.
        chosen = _floyd_by_row(drawn, self.size) if sets < count else _floyd_by_column(drawn, self.size)
        return chosen.to(self.y.device)

    def state_dict(self) -> dict[str, Any]:
        return {"x": self.x.clone(), "y": self.y.clone(), "size": self.size, "seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["x"].shape != self.x.shape or state["size"] != int((state["y"] >= 0).sum()):
            raise ValueError(f"a buffer of {tuple(state['x'].shape)}, expected {tuple(self.x.shape)}, or miscounted")
        self.x.copy_(state["x"])
        self.y.copy_(state["y"])
        self.size, self.seen = state["size"], state["seen"]


def _floyd_by_row(drawn: Tensor, size: int) -> Tensor:
    rows = []
    for values in drawn.tolist():
        row: dict[int, None] = {}  # a set that keeps its order
        for newest, value in enumerate(values, start=size - len(values)):
            pick = int(value * (newest + 1))
            row[newest if pick in row else pick] = None
        rows.append(list(row))
    return torch.tensor(rows, dtype=torch.int64).reshape(drawn.shape)


def _floyd_by_column(drawn: Tensor, size: int) -> Tensor:
    chosen = torch.full(drawn.shape, -1)
    for column, values in enumerate(drawn.T):
        newest = size - drawn.shape[1] + column
        pick = (values * (newest + 1)).long()
        taken = (chosen[:, :column] == pick[:, None]).any(dim=1)
        chosen[:, column] = torch.where(taken, newest, pick)
    return chosen
