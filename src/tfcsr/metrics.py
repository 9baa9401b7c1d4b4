"""What a sequence of evaluations says: the formulas, over an accuracy matrix in percent.

a[i][j] is the accuracy on the test set of task j after training on task i; T tasks. `docs/metrics.md` has the sources.
A row is None where nobody measured: then a formula takes what was measured, and is None where that is nothing.
"""

from collections.abc import Sequence

Matrix = Sequence[Sequence[float] | None]


def pooled_accuracy(row: Sequence[float], test_sizes: Sequence[int], seen: int) -> float:
    """Accuracy over all test examples of the first `seen` tasks together."""
    right = sum(accuracy * size for accuracy, size in zip(row[:seen], test_sizes[:seen], strict=True))
    return right / sum(test_sizes[:seen])


def forgetting(matrix: Matrix) -> float | None:
    """Mean over all tasks but the last of (best accuracy before the last task - accuracy after it); None if T = 1."""
    rows = [(i, row) for i, row in enumerate(matrix) if row is not None]
    *before, (_, last) = rows
    known = before[-1][0] + 1 if before else 0  # tasks that were asked for before the end
    return _mean([max(row[j] for i, row in before if i >= j) - last[j] for j in range(known)])


def backward_transfer(matrix: Matrix) -> float | None:
    """Mean over all tasks but the last of (accuracy after the last task - when just learned); None if T = 1."""
    *before, last = matrix
    assert last is not None
    return _mean([last[j] - row[j] for j, row in enumerate(before) if row is not None])


def forward_transfer(matrix: Matrix, untrained: Sequence[float]) -> float | None:
    """Mean over all tasks but the first of (accuracy just before it is learned - untrained); None if T = 1."""
    return _mean([row[j] - untrained[j] for j, row in enumerate(matrix[:-1], start=1) if row is not None])


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
