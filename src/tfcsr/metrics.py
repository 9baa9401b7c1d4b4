"""What a sequence of evaluations says: the formulas, over an accuracy matrix in percent.

a[i][j] is the accuracy on the test set of task j after training on task i; T tasks. `docs/metrics.md` has the sources.
"""

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def pooled_accuracy(row: Sequence[float], test_sizes: Sequence[int], seen: int) -> float:
    """Accuracy over all test examples of the first `seen` tasks together."""
    right = sum(accuracy * size for accuracy, size in zip(row[:seen], test_sizes[:seen], strict=True))
    return right / sum(test_sizes[:seen])


def forgetting(matrix: Matrix) -> float | None:
    """Mean over all tasks but the last of (best accuracy before the last task - accuracy after it); None if T = 1."""
    last = len(matrix) - 1
    return _mean([max(row[j] for row in matrix[j:last]) - matrix[last][j] for j in range(last)])


def backward_transfer(matrix: Matrix) -> float | None:
    """Mean over all tasks but the last of (accuracy after the last task - when just learned); None if T = 1."""
    last = len(matrix) - 1
    return _mean([matrix[last][j] - matrix[j][j] for j in range(last)])


def forward_transfer(matrix: Matrix, untrained: Sequence[float]) -> float | None:
    """Mean over all tasks but the first of (accuracy just before it is learned - untrained); None if T = 1."""
    return _mean([matrix[j - 1][j] - untrained[j] for j in range(1, len(matrix))])


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
