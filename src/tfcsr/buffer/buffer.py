"""The replay buffer: copies of past examples within a fixed budget, and of what is stored with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from tfcsr.buffer.disk import BLOCK_BYTES, OnDisk, Version
from tfcsr.buffer.policies.base import Candidates, Field, Policy
from tfcsr.buffer.policies.reservoir import Reservoir
from tfcsr.errors import SpecError
from tfcsr.models.predict import PART, PART_ON_GPU


def _no_features(x: Tensor) -> Tensor:
    raise ValueError("this policy chooses by features: give add() a function that computes them")


def _no_gradients(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    raise ValueError("this policy chooses by gradients: give add() a function that computes them")


@dataclass(frozen=True)
class Changes:
    """What an `add` changed: the slots that hold another example now, and where that example came from."""

    slots: Tensor
    rows: Tensor  # the number among those that arrived; -1: it was in the buffer before, in another slot

    def arrived(self) -> tuple[Tensor, Tensor]:
        """Slots and rows of the examples that are new to the buffer."""
        new = self.rows >= 0
        return self.slots[new], self.rows[new]


class Buffer:
    """Replay buffer: at most `capacity` examples, each with a value of every field. The fields are `x`, `y`, those of
    the policy, and those a method asks for. A method sees old tasks only through the buffer.

    With `on_disk`, the examples lie in a file of `folder`, or in a temporary one; all else stays in memory.
    """

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, ...],
        policy: Policy | None = None,
        device: torch.device | str = "cpu",
        *,
        dtype: torch.dtype = torch.uint8,
        beside: Mapping[str, Field] | None = None,
        on_disk: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.policy = policy or Reservoir()
        kinds = {"x": Field(shape, dtype), "y": Field((), torch.int64, -1)}
        for name, field in (*self.policy.fields.items(), *(beside or {}).items()):
            if name in (*kinds, "size", "seen", "policy", "disk", "rows", "sums"):
                raise SpecError(f"the buffer has something called {name!r} already: choose another name for the field")
            kinds[name] = field
        self.kinds = kinds
        self.disk = OnDisk(capacity, shape, dtype, folder) if on_disk else None
        in_memory = {name: field for name, field in kinds.items() if name != "x" or self.disk is None}
        self.fields = {name: field.tensor(capacity, device) for name, field in in_memory.items()}
        self.capacity = capacity
        self.size = 0
        self.seen = 0
        self._version: tuple[object, Version] | None = None
        self._classes: tuple[object, Tensor] | None = None

    def __len__(self) -> int:
        return self.size

    @property
    def x(self) -> Tensor:
        """All examples. Of those on disk it is a copy, as large as all of them: `examples` reads some."""
        return self.fields["x"] if self.disk is None else self.examples(torch.arange(self.capacity))

    def examples(self, positions: Tensor) -> Tensor:
        """The examples at these positions."""
        if self.disk is None:
            return self.fields["x"][positions]
        return self.disk.read(positions).to(self.y.device)

    @property
    def block(self) -> int:
        """How many examples one may well have in memory at a time. As many as a network is asked about at once, or some
        times as many: so that asking in blocks gives the bits of asking for all.
        """
        rows = BLOCK_BYTES // max(1, self.kinds["x"].nbytes)
        return max(PART, rows - rows % (PART_ON_GPU if rows >= PART_ON_GPU else PART))

    def in_blocks(self) -> list[Tensor]:
        """All positions, a block at a time."""
        return list(torch.arange(self.size, device=self.y.device).split(self.block))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor of all examples."""
        return self.capacity, *self.kinds["x"].shape

    @property
    def dtype(self) -> torch.dtype:
        return self.kinds["x"].dtype

    @property
    def y(self) -> Tensor:
        return self.fields["y"]

    @property
    def nbytes(self) -> int:
        """Bytes of all fields at full capacity, filled or not."""
        return sum(self.capacity * field.nbytes for field in self.kinds.values())

    def classes(self) -> Tensor:
        """The classes present, ascending."""
        now = (self.y.data_ptr(), self.y._version, self.size)
        if self._classes is None or self._classes[0] != now:  # a probe asks each time, and labels seldom change
            self._classes = now, self.y[: self.size].bincount().nonzero().squeeze(1)
        return self._classes[1]

    def add(
        self,
        x: Tensor,
        y: Tensor,
        generator: Generator,
        features: Callable[[Tensor], Tensor] = _no_features,
        gradients: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = _no_gradients,
        rows: Tensor | None = None,
    ) -> Changes:
        """Pass these examples, or only their `rows`, through the policy once, in order. For the examples it keeps, all
        other fields are empty until `write` fills them.
        """
        held = self.size
        arriving = y if rows is None else y[rows.to(y.device)]
        labels = torch.cat([self.y[:held], arriving]).cpu()
        read = None if self.disk is None else self.examples
        candidates = Candidates(x, labels, self.fields, self.capacity, self.seen, features, gradients, rows, read)
        keep = self.policy.keep(candidates, generator)
        self.seen += len(arriving)
        self.size = len(keep)
        # What stays in its slot is not touched; from slot `held` on, there was nothing to stay.
        slots = ((keep != torch.arange(len(keep))) | (keep >= held)).nonzero().squeeze(1)
        origins = (keep[slots] - held).clamp(min=-1)
        moved = origins < 0
        if rows is not None:
            origins = torch.where(moved, -1, rows[origins.clamp(min=0)] if len(rows) else -1)
        device = self.y.device
        changes = Changes(slots.to(device), origins.to(device))
        if bool(moved.any()):
            source, target = keep[slots][moved].to(device), slots[moved].to(device)
            for field in self.fields.values():
                field[target] = field[source]  # the right side is a copy: slots may change places
            if self.disk is not None:
                self.disk.move(target, source)
        target, row = changes.arrived()
        given = {"x": x, "y": y}
        for name, field in self.fields.items():
            there = given.get(name)
            field[target] = self.kinds[name].empty if there is None else there[row.to(there.device)].to(device)
            if self.size < held:
                field[self.size :] = self.kinds[name].empty
        if self.disk is not None:
            if self.size < held:
                self.disk.clear(self.size)
            for some in torch.arange(len(target), device=device).split(self.block):
                self.disk.write(target[some], x[row[some].to(x.device)])
        for name, values in self.policy.beside(keep).items():
            self.fields[name][: self.size] = values.to(device)
        return changes

    def grow(self, beside: Mapping[str, Field]) -> None:
        """Make room for new classes in each field whose shape depends on the number of classes."""
        for name, field in beside.items():
            if field.shape == self.kinds[name].shape:
                continue
            grown = torch.full((self.capacity, *field.shape), field.later, dtype=field.dtype, device=self.y.device)
            old = self.fields[name]
            grown[tuple(slice(size) for size in old.shape)] = old
            grown[self.size :] = field.empty
            self.fields[name], self.kinds[name] = grown, field

    def remove(self, label: int) -> int:
        """Remove all examples of a class; the others move up. Returns how many were removed."""
        stay = (self.y[: self.size] != label).nonzero().squeeze(1)
        gone = self.size - len(stay)
        for name, field in self.fields.items():
            field[: len(stay)] = field[stay]
            field[len(stay) : self.size] = self.kinds[name].empty
        if self.disk is not None:
            self.disk.move(torch.arange(len(stay)), stay)
            self.disk.clear(len(stay))
        if gone:
            # How many of all that were seen were not of this class, as far as what is held can tell.
            self.seen = round(self.seen * len(stay) / self.size)
            self.size = len(stay)
        self.policy.forget(label)
        return gone

    def write(self, slots: Tensor, **values: Tensor) -> None:
        """Store these field values with the examples in these slots."""
        for name, value in values.items():
            if name == "x" and self.disk is not None:
                self.disk.write(slots, value)
                continue
            if name not in self.fields:
                raise SpecError(f"the buffer has no field {name!r}: it has {', '.join(self.fields)}")
            self.fields[name][slots] = value.to(self.fields[name].dtype)

    def stored(self, positions: Tensor) -> dict[str, Tensor]:
        """All fields except `x` and `y` of the examples at these positions."""
        return {name: field[positions] for name, field in self.fields.items() if name not in ("x", "y")}

    def lie_in(self, folder: Path) -> None:
        """Where it is on disk, have it lie in this folder."""
        if self.disk is not None:
            self.disk.file.bring_to(folder)

    def leave(self) -> None:
        """Where it is on disk, change nothing of the file it lies in."""
        if self.disk is not None:
            self.disk.file.leave()

    def draw(self, sets: int, count: int, generator: Generator, among: Tensor | None = None) -> Tensor:
        """Positions [sets, count]: each row is a uniform sample of different examples, out of the positions `among`
        (default: all).

        Floyd's algorithm: its cost depends on how much is drawn, not on the capacity.
        """
        size = self.size if among is None else len(among)
        if count > size:
            raise ValueError(f"cannot draw {count} different examples from {size}")
        drawn = torch.rand((sets, count), dtype=torch.float64, generator=generator)
        # A probe draws one long row, an epoch many short ones: the loop goes over what is fewer.
        chosen = _floyd_by_row(drawn, size) if sets < count else _floyd_by_column(drawn, size)
        return chosen.to(self.y.device) if among is None else among[chosen.to(among.device)]

    def state_dict(self) -> dict[str, Any]:
        """A copy of all there is; of examples on disk, of where they lie."""
        rest = {"size": self.size, "seen": self.seen, "policy": self.policy.state_dict()}
        if self.disk is None:
            return {name: field.clone() for name, field in self.fields.items()} | rest
        tensors = (self.disk.rows, self.disk.sums, *self.fields.values())
        now = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
        if self._version is None or self._version[0] != now:  # between two tasks nothing changes
            self._version = now, self.disk.version(self.fields)
        return {"disk": self._version[1]} | rest

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave, of a buffer on disk or not: this one stays where it is."""
        version: Version | None = state.get("disk")
        given: Mapping[str, Any] = state if version is None else version.tensors
        for name, kind in self.kinds.items():
            shape, dtype = (self.capacity, *kind.shape), kind.dtype
            if name == "x" and version is not None:
                there: tuple[Any, Any] = (len(version.rows), *version.shape), version.dtype
            else:
                there = tuple(given[name].shape), given[name].dtype
            if there != (shape, dtype):
                raise ValueError(f"a buffer with {name} {there[0]}, expected {shape}")
        filled = given["y"] >= 0
        if state["size"] != int(filled.sum()) or not bool(filled[: state["size"]].all()):
            raise ValueError("a buffer that is miscounted")
        for name, field in self.fields.items():
            if name != "x" or version is None:
                field.copy_(given[name])
        self.size, self.seen = state["size"], state["seen"]
        self._load_examples(given.get("x"), version)
        self.policy.load_state_dict(state.get("policy", {}))  # which version 0.1.0 did not have

    def _load_examples(self, x: Tensor | None, version: Version | None) -> None:
        if self.disk is not None and version is not None:
            self.disk.go_back(version)
        elif self.disk is not None and x is not None:
            self.disk.clear(0)
            for some in self.in_blocks():
                self.disk.write(some, x[some.to(x.device)])
        elif version is not None:
            there = OnDisk(self.capacity, version.shape, version.dtype)
            there.go_back(version)
            self.x.fill_(self.kinds["x"].empty)
            for some in self.in_blocks():
                self.x[some] = there.read(some).to(self.y.device)


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
