"""What a complete run leaves: `result.json`, and the same as an object."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from tfcsr.errors import OutputError
from tfcsr.metrics import backward_transfer, forgetting, forward_transfer, pooled_accuracy

if TYPE_CHECKING:  # results are read and listed without waiting for torch
    from tfcsr.training.loop import Training


@dataclass(frozen=True)
class Result:
    """Accuracies and recalls are percentages; tasks and epochs count from 1. `docs/metrics.md` defines each field."""

    final_accuracy: float
    accuracy_after_task: list[float]
    accuracy_matrix: list[list[float]]
    untrained_accuracy: list[float]
    forgetting: float | None
    backward_transfer: float | None
    forward_transfer: float | None
    replay_batches: int
    memory_checks: int
    probes: list[dict[str, Any]]
    epochs_per_task: list[int]
    optimizer_steps: int
    samples_seen: int
    seconds: float
    buffer_bytes: int
    collapsed: int | None
    weights_sha256: str
    classes_per_task: list[list[int]]
    test_sizes: list[int]
    spec: dict[str, Any]
    environment: dict[str, Any]

    @classmethod
    def of(cls, training: "Training", environment: dict[str, Any]) -> Self:
        matrix, sizes = training.accuracy_matrix, training.tasks.test_sizes
        after = [pooled_accuracy(row, sizes, seen) for seen, row in enumerate(matrix, start=1)]
        return cls(
            final_accuracy=after[-1],
            accuracy_after_task=after,
            accuracy_matrix=matrix,
            untrained_accuracy=training.untrained,
            forgetting=forgetting(matrix),
            backward_transfer=backward_transfer(matrix),
            forward_transfer=forward_transfer(matrix, training.untrained),
            replay_batches=training.replay_batches,
            memory_checks=len(training.learner.probes),
            probes=training.learner.probes,
            epochs_per_task=training.epochs_per_task,
            optimizer_steps=training.optimizer_steps,
            samples_seen=training.samples_seen,
            seconds=training.seconds,
            buffer_bytes=training.learner.buffer.nbytes,
            collapsed=training.collapsed,
            weights_sha256=training.weights_sha256(),
            classes_per_task=[list(classes) for classes in training.tasks.classes],
            test_sizes=sizes,
            spec=training.spec.to_dict(),
            environment=environment,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any, source: str = "the result") -> Self:
        names = [f.name for f in fields(cls)]
        if not isinstance(values, dict) or sorted(values) != sorted(names):
            raise OutputError(f"{source} is not a result of this version of tfcsr: move it away to run again")
        return cls(**values)
