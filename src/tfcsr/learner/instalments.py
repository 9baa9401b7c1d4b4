"""What arrives together as a task: its labels as numbers, some of it held out, and where it lies."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch

from tfcsr.data.arriving import Arrival
from tfcsr.data.tasks import Examples, Task
from tfcsr.errors import DataError
from tfcsr.generators import derived_seed
from tfcsr.spec import RunSpec

# Of a GPU's free memory, for the examples of one call of `learn`; more stay in host memory.
LARGEST_SHARE_OF_DEVICE = 0.4


def make_task(arrival: Arrival, labels: Mapping[Hashable, int], spec: RunSpec, number: int) -> Task:
    """The examples with the numbers of their labels, on the device where they fit there. A learner has no test set."""
    device = torch.device(spec.device)
    y = np.array([labels[label] for label in arrival.labels], np.int64)[arrival.codes]
    train, aside = _held_out(y, spec, number)
    examples = Examples(arrival.x, torch.from_numpy(y).to(device), arrival.mapped)
    held_out = some_of(examples, aside)
    if len(aside):
        examples = some_of(examples, train)
    if device.type == "cuda" and examples.mapped is None and not examples.x.is_cuda:
        free, _ = torch.cuda.mem_get_info(device)
        if examples.x.nbytes <= LARGEST_SHARE_OF_DEVICE * free:
            examples = Examples(examples.x.to(device), examples.y)
    nothing = some_of(examples, aside[:0])
    return Task(number, tuple(sorted(set(y.tolist()))), examples, held_out, nothing)


def all_together(parts: Sequence[Examples]) -> Examples:
    """The examples of several tasks as one."""
    if len(parts) == 1:
        return parts[0]
    last = parts[-1]
    x = torch.cat([part.x.to(last.x.device) for part in parts])
    return Examples(x, torch.cat([part.y.to(last.y.device) for part in parts]))


def some_of(examples: Examples, rows: np.ndarray) -> Examples:
    """A copy of these rows."""
    chosen = torch.from_numpy(rows)
    return Examples(examples.x[chosen.to(examples.x.device)], examples.y[chosen.to(examples.y.device)])


def _held_out(y: np.ndarray, spec: RunSpec, task: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on, and those set aside: a share of each class that has enough of them."""
    if spec.held_out == 0:
        return np.arange(len(y)), np.zeros(0, np.int64)
    aside = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        away = min(round(spec.held_out * len(rows)), len(rows) - 1)
        drawn = np.random.default_rng(derived_seed(spec.seed, f"held-out/{task}/{label}")).permutation(len(rows))
        aside[rows[drawn[:away]]] = True
    if not aside.any():
        raise DataError(f"no class has enough examples to hold out {spec.held_out:g} of them: raise held_out")
    return np.flatnonzero(~aside), np.flatnonzero(aside)
