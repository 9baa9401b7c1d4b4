"""What is kept of many runs: each result without what can be computed again, all in one JSON file."""

import dataclasses
import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import tfcsr
from tfcsr.errors import OutputError, SpecError, counted
from tfcsr.experiments.folder import read_results
from tfcsr.experiments.result import Result, is_kind, known_kinds, shortened
from tfcsr.files import read_json, write_bytes, writing
from tfcsr.spec import NOT_IDENTITY, RunSpec

# The same run on another machine, or with other arithmetic, answers the same question.
MACHINE = ("device", "precision", "deterministic", "threads", *NOT_IDENTITY)

# Beyond these a file is damaged, and would take long to show.
MOST_EPOCHS = 10**6
MOST_SECONDS = 1e9


@dataclass(frozen=True)
class Record:
    accuracy_after_task: list[float]
    held_out_accuracy: float | None
    replay_batches: int
    optimizer_steps: int
    epochs_per_task: list[int]
    probes: list[list[float]]  # task, epoch, recall
    seconds: float
    collapsed: int | None
    weights_sha256: str
    spec: dict[str, Any]
    environment: dict[str, Any]
    # Since 0.2.0.
    origin: dict[str, Any] = field(default_factory=dict)
    # Since 0.4.0. Of each class after each task: how many of it the memory asked for and how many were right, and its
    # accuracy in percent; only where a study wants to know.
    replayed: int | None = None
    recall_asked: list[list[int]] = field(default_factory=list)
    recall_right: list[list[int]] = field(default_factory=list)
    class_accuracy: list[list[float]] = field(default_factory=list)
    task_accuracy: list[float] = field(default_factory=list)  # of each task in the end
    # Whether, before the last task, outputs of classes to come were answers too, of which the loss says nothing: what
    # was found there is too low. So it was in our own study until 2026-11-16.
    all_outputs: bool = False

    @classmethod
    def of(cls, result: Result, *, per_class: bool = False) -> Self:
        """`per_class`: with what there is of each class, after each task."""
        if len(result.evaluated) < len(result.accuracy_matrix):
            raise OutputError(
                f"{result.spec.get('method')} was evaluated after {len(result.evaluated)} of"
                f" {counted(len(result.accuracy_matrix), 'task')}: a record needs evaluate_every 1"
            )
        kept = {f.name: getattr(result, f.name) for f in dataclasses.fields(cls) if hasattr(result, f.name)}
        probes = [[p["task"], p["epoch"], p["recall"]] for p in result.probes]
        record = cls(**kept | {"probes": probes, "task_accuracy": result.accuracy_matrix[-1]})
        return record if per_class else record.without_classes()

    @classmethod
    def from_dict(cls, values: Any, source: str) -> Self:
        kinds = known_kinds(cls, values, source)
        for name, kind in kinds.items():
            if not is_kind(values[name], kind):
                raise OutputError(f"{source} is damaged: {name} is {shortened(values[name])}")
        # A spec comes back whole, fields that are newer than the file at what they were then; and is checked.
        kept = {name: values[name] for name in kinds}
        record = cls(**kept | {"spec": RunSpec.read(values["spec"]).to_dict()})
        if problem := record._problem():
            raise OutputError(f"{source} is damaged: {problem}")
        return record

    def _problem(self) -> str:
        tasks = self.run_spec.tasks
        if {len(self.accuracy_after_task), len(self.epochs_per_task)} != {tasks}:
            return f"not everything in it is of {tasks} tasks"
        recalls = [probe[2] for probe in self.probes if len(probe) == 3]
        if len(recalls) < len(self.probes) or not all(0 <= x <= 100 for x in (*self.accuracy_after_task, *recalls)):
            return "accuracy or recall is no percentage"
        # Another run may be told to replay then.
        if not all(task in range(1, tasks + 1) and epoch in range(1, MOST_EPOCHS) for task, epoch, _ in self.probes):
            return "a probe in it is of no task or epoch"
        counts = (self.replay_batches, self.optimizer_steps - 1, self.seconds, *(e - 1 for e in self.epochs_per_task))
        if min(counts) < 0 or max(self.epochs_per_task) > MOST_EPOCHS or (self.replayed or 0) < 0:
            return "a count in it cannot be"
        if not all(0 <= x <= 100 for row in (*self.class_accuracy, self.task_accuracy) for x in row):
            return "an accuracy of a class or task is no percentage"
        answers = [list(zip(*rows, strict=False)) for rows in zip(self.recall_asked, self.recall_right, strict=False)]
        if not all(0 <= right <= asked for row in answers for asked, right in row):
            return "more was recalled of a class than asked"
        if not all(is_kind(value, str | int | None) for value in self.environment.values()):
            return "its environment is nonsense"
        return ""

    def without_classes(self) -> Self:
        """Nor tasks. Where nobody wants to know."""
        return dataclasses.replace(self, recall_asked=[], recall_right=[], class_accuracy=[], task_accuracy=[])

    @functools.cached_property
    def run_spec(self) -> RunSpec:
        return RunSpec.read(self.spec)

    @property
    def final_accuracy(self) -> float:
        return self.accuracy_after_task[-1]

    @property
    def mean_accuracy(self) -> float:
        """The plain mean over tasks, where that was kept."""
        return fmean(self.task_accuracy) if self.task_accuracy else self.final_accuracy

    @property
    def memory_checks(self) -> int:
        return len(self.probes)

    @property
    def epochs(self) -> int:
        return sum(self.epochs_per_task)

    def value(self, quantity: str) -> float:
        return float(getattr(self, quantity))

    def same_machine(self, other: Self) -> bool:
        """Whether the two may be expected to agree to the last bit."""
        settings = [name for name in MACHINE if name not in NOT_IDENTITY]
        device = ("torch", "gpu" if self.environment.get("gpu") else "processor")
        return all(self.spec[name] == other.spec[name] for name in settings) and all(
            self.environment.get(name) == other.environment.get(name) for name in device
        )


def question(spec: RunSpec) -> tuple[tuple[str, Any], ...]:
    """What a run answers, whichever machine it ran on."""
    return tuple(sorted((name, str(value)) for name, value in spec.identity().items() if name not in MACHINE))


@dataclass
class Records:
    """Many runs, and the sessions in which they were made."""

    runs: list[Record] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)

    def merge(self, other: "Records") -> None:
        """What is known already stays as it is: of several runs that answer one question the first is taken, or the
        first of which the classes are known.
        """
        known: dict[object, Record] = {}
        for record in (*self.runs, *other.runs):
            first = known.setdefault(asked := question(record.run_spec), record)
            if record.class_accuracy and not first.class_accuracy:
                known[asked] = record
        self.runs = list(known.values())
        self.sessions += [session for session in other.sessions if session not in self.sessions]

    def write(self, path: Path) -> None:
        """One run a line, so that a change shows as one; machines, and specs but for their seed, which many share,
        once.
        """
        machines, specs = _Shared(), _Shared()
        lines = []
        for record in sorted(self.runs, key=lambda r: (r.spec["benchmark"], r.run_spec.name())):
            values = dataclasses.asdict(record)
            # Where data and results lay on some machine is nobody's business.
            shared = {name: value for name, value in record.spec.items() if name not in ("data_dir", "out", "seed")}
            values |= {"spec": specs.number(shared), "seed": record.spec["seed"]}
            values["environment"] = machines.number(record.environment)
            # What a record need not have and does not have is not said.
            for name in ("replayed", "recall_asked", "recall_right", "class_accuracy", "task_accuracy"):
                if values[name] in (None, []):
                    del values[name]
            if not record.all_outputs:
                del values["all_outputs"]
            lines.append(json.dumps(values, allow_nan=False, separators=(",", ":")))
        sessions = [session | {"machine": machines.number(session["machine"])} for session in self.sessions]
        head = json.dumps({"tfcsr": tfcsr.__version__, "machines": machines.values, "sessions": sessions}, indent=1)
        parts = {"specs": map(json.dumps, specs.values), "runs": lines}
        lists = (f' "{name}": [\n' + ",\n".join(part) + "\n]" for name, part in parts.items())
        text = head[:-2] + ",\n" + ",\n".join(lists) + "}\n"
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file of records, or from a folder of runs."""
        if path.is_dir():
            # A study asks what is known after each task: a run that was evaluated less often answers none.
            found = [result for result in read_results(path) if len(result.evaluated) == len(result.accuracy_matrix)]
            return cls([Record.of(result, per_class=True) for result in found])
        values = read_json(path)

        @functools.cache
        def listed(kind: str) -> list[dict[str, Any]]:
            known = values.get(kind) if isinstance(values, dict) else None
            if isinstance(known, list) and all(isinstance(one, dict) for one in known):
                return known
            raise TypeError(f"it has no {kind}" if known is None else f"its {kind} are {shortened(known)}")

        def shared(kind: str, number: Any) -> dict[str, Any]:
            known = listed(kind)
            if is_kind(number, int) and number in range(len(known)):
                return known[int(number)]
            raise TypeError(f"there is no number {shortened(number)} among its {kind}")

        def whole(entry: Any) -> Any:
            spec = entry["spec"]
            if not isinstance(spec, dict):  # in an older file each run has its own
                spec = shared("specs", spec) | {"seed": entry["seed"]}
                if not is_kind(spec["seed"], int):
                    raise TypeError(f"a run's seed is {shortened(spec['seed'])}")
            return entry | {"spec": spec, "environment": shared("machines", entry["environment"])}

        try:
            sessions = [session | {"machine": shared("machines", session["machine"])} for session in listed("sessions")]
            if not all(_is_session(session) for session in sessions):
                raise TypeError("a session is none")
            entries = enumerate(map(whole, listed("runs")), start=1)
            records = [Record.from_dict(entry, f"run {i} in {path}") for i, entry in entries]
        except (TypeError, KeyError, SpecError) as error:
            why = f"something in it has no {error}" if isinstance(error, KeyError) else error
            raise OutputError(f"{path} does not hold results of tfcsr: {why}; move it away to begin anew") from None
        return cls(records, sessions)


class _Shared:
    """Values that many runs share, each with its number."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: dict[str, Any]) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


_SESSION = {"command": str, "date": str, "runs": int, "seconds": float, "machine": dict}


def _is_session(session: dict[str, Any]) -> bool:
    return (
        session.keys() == _SESSION.keys()
        and all(is_kind(session[name], kind) for name, kind in _SESSION.items())
        and all(is_kind(value, str | int | None) for value in session["machine"].values())
        and session["runs"] > 0 <= session["seconds"] < MOST_SECONDS
        and (session["command"] + session["date"]).isprintable()
    )
