"""What a complete run leaves: `result.json`, and the same as an object."""

import functools
import math
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin, get_type_hints

from tfcsr.errors import OutputError, counted, printable
from tfcsr.metrics import backward_transfer, forgetting, forward_transfer, pooled_accuracy

if TYPE_CHECKING:  # results are read and listed without waiting for torch
    from tfcsr.experiments.training import Training


@dataclass(frozen=True)
class Result:
    """Accuracies and recalls are percentages; tasks and epochs count from 1. `docs/metrics.md` defines each field. What
    is known after each task is None after those that were not evaluated.
    """

    final_accuracy: float
    accuracy_after_task: list[float | None]
    accuracy_matrix: list[list[float] | None]
    class_accuracy: list[list[float] | None]
    held_out_accuracy: float | None
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
    # Since 0.2.0: what is added here has a default, which a result from before gets.
    origin: dict[str, Any] = field(default_factory=dict)
    class_names: list[str] = field(default_factory=list)  # by label; empty where nobody said them
    # Since 0.4.0.
    replayed: int | None = None
    recall_asked: list[list[int] | None] = field(default_factory=list)
    recall_right: list[list[int] | None] = field(default_factory=list)

    @property
    def evaluated(self) -> list[int]:
        """The tasks after which the network was evaluated."""
        return [task for task, row in enumerate(self.accuracy_matrix, start=1) if row is not None]

    def __repr__(self) -> str:
        """What one wants to know first; `to_dict()` has all of it."""
        names = (self.spec.get(name) for name in ("method", "benchmark", "seed"))
        run = "{} on {}, seed {}".format(*names)
        forgot = "" if self.forgetting is None else f", forgetting {self.forgetting:.2f} points"
        died = "" if self.collapsed is None else f", collapsed in task {self.collapsed}"
        cost = f"{counted(self.optimizer_steps, 'step')}, {self.seconds:.1f} s"
        kept = f", kept in {self.spec['out']}" if self.spec.get("out") else ""
        text = f"{run}: final accuracy {self.final_accuracy:.2f} %{forgot}{died}, {cost}{kept}"
        return printable(f"<Result of {text}>")

    @classmethod
    def of(cls, training: "Training", environment: dict[str, Any], origin: dict[str, Any]) -> Self:
        matrix, sizes = _rows(training.accuracy_matrix), training.tasks.test_sizes
        after = [None if row is None else pooled_accuracy(row, sizes, i) for i, row in enumerate(matrix, start=1)]
        final = after[-1]
        assert final is not None  # the last task is always evaluated
        return cls(
            final_accuracy=final,
            accuracy_after_task=after,
            accuracy_matrix=matrix,
            class_accuracy=_rows(training.class_accuracy),
            held_out_accuracy=training.held_out_accuracy,
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
            buffer_bytes=training.learner.buffer.nbytes + training.learner.exam.kept.nbytes,
            collapsed=training.collapsed,
            weights_sha256=training.weights_sha256(),
            classes_per_task=[list(classes) for classes in training.tasks.classes],
            test_sizes=sizes,
            spec=training.spec.to_dict(),
            environment=environment,
            origin=origin,
            class_names=list(training.class_names),
            replayed=training.replayed,
            recall_asked=_rows(training.recall_asked),
            recall_right=_rows(training.recall_right),
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: _copied(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Any, source: str = "the result") -> Self:
        """From a file, which may hold anything: whatever passes can be shown in every table and figure."""
        kinds = known_kinds(cls, values, source)
        for name, kind in kinds.items():
            if not is_kind(values[name], kind):
                raise OutputError(
                    f"{source} is damaged: {name} is {shortened(values[name])}; move it away to run again"
                )
        result = cls(**{name: values[name] for name in kinds})
        if problem := result._problem():
            raise OutputError(f"{source} is damaged: {problem}; move it away to run again")
        return result

    def _problem(self) -> str:
        tasks = len(self.accuracy_matrix)
        lists: list[list[Any]] = [self.accuracy_after_task, self.untrained_accuracy, self.epochs_per_task]
        lists += [self.classes_per_task, self.test_sizes, *(row for row in self.accuracy_matrix if row is not None)]
        if tasks == 0 or any(len(one) != tasks for one in lists):
            return f"not everything in it is of {tasks} tasks"
        classes = len({label for labels in self.classes_per_task for label in labels})
        sizes = {len(row) for row in self.class_accuracy if row is not None}
        if len(self.class_accuracy) != tasks or sizes - {classes}:
            return f"its class_accuracy is not of {counted(tasks, 'task')} and {counted(classes, 'class', 'classes')}"
        of_tasks: tuple[list[Any], ...] = (self.accuracy_matrix, self.class_accuracy, self.accuracy_after_task)
        missing = [[value is None for value in values] for values in of_tasks]
        if missing[0][-1] or any(one != missing[0] for one in missing):
            return "it does not say after which tasks it was evaluated"
        if (name := misnamed(self.spec)) is not None:
            return f"its spec has {name} {shortened(self.spec.get(name))}"
        for probe in self.probes:
            if probe.keys() != _PROBE.keys() or not all(is_kind(probe[name], kind) for name, kind in _PROBE.items()):
                return f"a probe is {shortened(probe)}"
            if not 1 <= probe["task"] <= tasks:
                return f"a probe is of task {probe['task']}"
        return ""


def _rows(table: Sequence[Any]) -> list[Any]:
    return [None if row is None else row.tolist() for row in table]


def _copied(value: Any) -> Any:
    """Values of JSON, so that nobody changes a result who changes these. `copy.deepcopy` asks each number."""
    if isinstance(value, list):
        return [_copied(entry) if isinstance(entry, list | dict) else entry for entry in value]
    return {name: _copied(entry) for name, entry in value.items()} if isinstance(value, dict) else value


_PROBE = {"task": int, "epoch": int, "recall": float, "passed": bool, "next_epoch": int | None}


@functools.cache
def _needed(cls: Any) -> frozenset[str]:
    return frozenset(f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def misnamed(spec: dict[str, Any]) -> str | None:
    """A field by which a run is named and grouped, and cannot be. A run of an older version says no scenario."""
    named = {"benchmark": str, "method": str, "seed": int} | ({"scenario": str} if "scenario" in spec else {})
    return next((name for name, kind in named.items() if not is_kind(spec.get(name), kind)), None)


def known_kinds(cls: Any, values: Any, source: str) -> dict[str, Any]:
    """The fields of a dataclass that a file has, with their types. One that came later may be missing, and one of a
    later version may stand there; one without a default must be there.
    """
    if not isinstance(values, dict) or not _needed(cls) <= values.keys():
        raise OutputError(f"{source} is not a result of tfcsr: move it away to run again")
    return {name: kind for name, kind in _kinds(cls).items() if name in values}


def is_kind(value: Any, kind: Any) -> bool:
    """Whether a value read from JSON is of this type. A number must be one that can be computed with."""
    return _check(kind)(value)


@functools.cache
def _check(kind: Any) -> Callable[[Any], bool]:
    """The question for one type. What the type is made of is looked at once: a folder may have 100,000 results."""
    if kind is float:
        return lambda v: math.isfinite(v) if type(v) is float else type(v) is int and abs(v) < 1 << 53
    if kind is int:
        return lambda v: type(v) is int and abs(v) < 1 << 63
    if isinstance(kind, types.UnionType):
        either = [_check(one) for one in get_args(kind)]
        return lambda v: any(check(v) for check in either)
    if get_origin(kind) is list:
        each = _check(*get_args(kind))
        return lambda v: type(v) is list and all(map(each, v))
    plain = get_origin(kind) or kind
    return lambda v: type(v) is plain


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
