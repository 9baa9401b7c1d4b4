"""Everything that determines a run, in one frozen dataclass: the Python API, the command line's flags and their help,
the spec files and the documentation are all read off it.
"""

import dataclasses
import difflib
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.recall.schedule import SCHEDULES, Schedule
from tfcsr.registry import Registry

# Of our methods those that keep a buffer, and those that probe it on a schedule.
BUFFERED = ("er", "mgp", "tfcsr", "tfcsr-spaced")
SCHEDULED = ("tfcsr", "tfcsr-spaced")

# Where its files lie and how often it is saved do not decide a run's outcome.
NOT_IDENTITY = ("checkpoint_every", "checkpoint_seconds", "data_dir", "out")

# What the paper did where a better choice is the default. A field given by hand wins over its protocol.
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {"new_data": "half", "replay_view": "frozen", "gate_data": "test", "held_out": 0.0},
}

# Mastery-gated progression has thresholds of its own, and replays past tasks only.
METHOD_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "mgp": {"mastery_threshold": 85.0, "buffer_fill": "after", "held_out": 0.1}
}


@dataclass(frozen=True)
class Option:
    """What a spec field means and which values it takes."""

    help: str
    type: Any
    default: Any
    choices: "tuple[str, ...] | Registry[Any] | None" = None
    low: float = -math.inf
    high: float = math.inf
    of: tuple[str, ...] = ()  # of our methods those it makes a difference to; none named: to all

    def names(self) -> list[str]:
        if self.choices is None:
            return []
        return self.choices.names() if isinstance(self.choices, Registry) else list(self.choices)


def option(kind: type, default: Any, help: str, **limits: Any) -> Any:
    # The dataclass default is None, "not given", for every field: only so can a given value win over a benchmark's.
    return field(default=None, metadata={"option": Option(help, kind, default, **limits)})


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run. Fields that are not given take the defaults of the benchmark, the method and the protocol at once, so a
    spec always shows what is in force.
    """

    benchmark: str = option(str, "split-digits", "the sequence of tasks", choices=BENCHMARKS)
    method: str = option(str, "tfcsr", "what keeps the network from forgetting", choices=METHODS)
    protocol: str = option(
        str,
        "default",
        "`paper` sets new_data, replay_view, gate_data and held_out to what the paper did; fields given by hand win",
        choices=tuple(PROTOCOLS),
    )
    model: str = option(str, "cnn", "the network", choices=MODELS)
    seed: int = option(int, 0, "the seed from which every generator is derived", low=0, high=2**63 - 1)
    tasks: int = option(
        int, None, "how many tasks the classes are cut into; the last may be smaller (default: the benchmark's)", low=1
    )
    class_order: int | tuple[int, ...] = option(
        tuple,
        42,
        "in which order the classes arrive: the seed of a shuffle, or all classes as a list 3,1,2; 42 is the paper's",
    )
    max_per_class: int = option(
        int, 0, "train on at most that many examples of each class, for a quick try; 0: on all of them", low=0
    )
    epochs: int = option(int, 10, "passes over each task's training data", low=1, high=10**6)
    batch_size: int = option(
        int, 64, "examples in a batch; in a mixed batch half of them are replayed", low=2, high=10**6
    )
    lr: float = option(float, 1e-3, "Adam's learning rate; its state is never reset", low=1e-12, high=1e3)
    new_data: str = option(
        str,
        "all",
        "which new examples an epoch of mixed batches uses: `all`, or `half`, the paper's (of each batch drawn, the"
        " first half; the rest goes unused)",
        choices=("all", "half"),
        of=BUFFERED,
    )
    new_task: str = option(
        str,
        "current",
        "whose examples are the new ones of a batch: the `current` task's, or in every task the `last` one's, the"
        " left-over loader that made the paper's ER on Split MNIST",
        choices=("current", "last"),
    )
    buffer_capacity: int = option(int, 200, "how many past examples are kept", low=1, high=10**8, of=BUFFERED)
    policy: str = option(str, "reservoir", "which examples the buffer keeps", choices=POLICIES, of=BUFFERED)
    buffer_fill: str = option(
        str,
        "before",
        "when a task's examples pass into the buffer: `before` it is trained on, so that replay holds some of them, or"
        " `after`",
        choices=("before", "after"),
        of=BUFFERED,
    )
    schedule: str = option(str, "expanding", "when the next probe is due", choices=SCHEDULES, of=SCHEDULED)
    initial_gap: float = option(float, 1.0, "epochs until a task's first probe", low=1, high=1e6, of=SCHEDULED)
    gap_multiplier: float = option(
        float, 1.5, "by how much a passed probe stretches the gap", low=1, high=1e6, of=SCHEDULED
    )
    mastery_threshold: float = option(
        float,
        95.0,
        "recall, in percent, that passes a probe; for mgp: accuracy on the newest task",
        low=0,
        high=100,
        of=(*SCHEDULED, "mgp"),
    )
    retention_threshold: float = option(
        float,
        15.0,
        "mgp: recall of the buffer, in percent, that lets it go on to the next task",
        low=0,
        high=100,
        of=("mgp",),
    )
    max_epochs: int = option(int, 50, "mgp: epochs after which it goes on in any case", low=1, high=10**6, of=("mgp",))
    gate_data: str = option(
        str,
        "held-out",
        "mgp: mastery is measured on `held-out` training data, or on the `test` set as in the paper, which leaks",
        choices=("held-out", "test"),
        of=("mgp",),
    )
    held_out: float = option(
        float,
        0.0,
        "share of each class's training data set aside: to choose settings on instead of the test set, and for mgp's"
        " gate",
        low=0,
        high=0.5,
    )
    probe_size: int = option(
        int,
        256,
        "at most that many examples of the buffer are asked for in a probe",
        low=1,
        high=10**8,
        of=(*SCHEDULED, "mgp"),
    )
    probe_mode: str = option(
        str,
        "eval",
        "`eval` as in the paper; `train`, where batch-norm statistics move; `placebo`, which only draws numbers from"
        " the replay generator, counted as passed; or `none`",
        choices=("eval", "train", "placebo", "none"),
        of=(*SCHEDULED, "mgp"),
    )
    ewc_lambda: float = option(float, 10_000.0, "ewc: weight of its penalty", low=0, high=1e12, of=("ewc",))
    si_lambda: float = option(float, 100.0, "si: weight of its penalty", low=0, high=1e12, of=("si",))
    augment: str = option(
        str,
        "none",
        "`crop-flip`: training images are shifted by up to an eighth of their size and mirrored, at random",
        choices=("none", "crop-flip"),
    )
    replay_view: str = option(
        str,
        "fresh",
        "augmented replay: a `fresh` view each time, or the one `frozen` view that was stored, the paper's",
        choices=("fresh", "frozen"),
        of=BUFFERED,
    )
    device: str = option(str, "auto", "`cpu`, `cuda`, `cuda:1`, or `auto`: the GPU where there is one")
    precision: str = option(
        str,
        "auto",
        "of forward and backward passes; weights stay fp32. `auto`: bf16 on a GPU, fp32 on a CPU; `tf32` needs a GPU",
        choices=("auto", "fp32", "tf32", "bf16"),
    )
    deterministic: bool = option(
        bool, False, "on a GPU: the same bits every time, alone or beside other runs, for some speed; a CPU always does"
    )
    threads: int = option(
        int,
        0,
        "CPU threads of the run, a part of the spec because they decide the last bits; 0: all cores, in a comparison 1",
        low=0,
        high=1024,
    )
    checkpoint_every: int = option(
        int,
        0,
        "epochs between two checkpoints, from which a run can resume; 0: one, or as many more as it takes for"
        " checkpoints to cost no more than 2 % of the time",
        low=0,
        high=10**6,
    )
    checkpoint_seconds: float = option(
        float,
        0.0,
        "instead: a checkpoint after the first epoch that ends so many seconds after the last",
        low=0,
        high=1e9,
    )
    data_dir: str | None = option(str, None, "where the data lies (default: $TFCSR_DATA, then the user's cache)")
    out: str | None = option(str, None, "the folder the run writes into")

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        for name, value in given.items():
            self._set(name, checked(name, value))
        for name in ("benchmark", "method", "protocol"):
            if name not in given:
                self._set(name, OPTIONS[name].default)
        benchmark = BENCHMARKS.get(self.benchmark)
        defaults = {name: entry.default for name, entry in OPTIONS.items()}
        defaults |= {"tasks": benchmark.tasks} | dict(benchmark.defaults)
        defaults |= dict(METHOD_DEFAULTS.get(self.method, {})) | dict(PROTOCOLS[self.protocol])
        for name, value in defaults.items():
            if getattr(self, name) is None:
                self._set(name, value)
        self._check_together(benchmark.classes)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_together(self, classes: int) -> None:
        if self.tasks > classes:
            raise SpecError(
                f"tasks {self.tasks} is more than the {classes} classes of {self.benchmark}: use 1..{classes}"
            )
        if isinstance(self.class_order, tuple) and sorted(self.class_order) != list(range(classes)):
            raise SpecError(
                f"class_order {format_value(self.class_order)} does not name each class of {self.benchmark} once:"
                f" list 0..{classes - 1} in any order, or give a seed"
            )
        if self.protocol == "paper" and self.buffer_capacity < self.batch_size // 2:
            raise SpecError(
                f"buffer_capacity {self.buffer_capacity} is below half a batch ({self.batch_size // 2}): the paper's"
                f" protocol would skip every batch; take a larger buffer, smaller batches or protocol default"
            )
        if self.method == "mgp" and self.gate_data == "held-out" and self.held_out == 0:
            raise SpecError("held_out 0 leaves mgp's gate nothing to measure on: raise it, or use gate_data test")
        if self.precision == "tf32" and self.device == "cpu":
            raise SpecError("precision tf32 needs a GPU: use fp32 or bf16 with device cpu")

    def recall_schedule(self) -> Schedule:
        return SCHEDULES.get(self.schedule)(self.initial_gap, self.gap_multiplier, self.mastery_threshold)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values. The rest stays as it is, also where another method's default would differ."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        for name in values:
            if name not in OPTIONS:
                close = difflib.get_close_matches(name, OPTIONS, 1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise SpecError(f"unknown spec field {name!r}: {hint}the fields are {', '.join(OPTIONS)}")
        return cls(**values)

    def given(self) -> dict[str, Any]:
        """The fields somebody has to give to get this run: those that differ from what they would be without."""
        by_itself = type(self)(benchmark=self.benchmark, method=self.method, protocol=self.protocol)
        chosen = {"benchmark": self.benchmark, "method": self.method}
        others = {k: v for k, v in self.to_dict().items() if k not in NOT_IDENTITY and v != by_itself.to_dict()[k]}
        if self.protocol != OPTIONS["protocol"].default:
            chosen["protocol"] = self.protocol
        return chosen | others

    def flags(self) -> list[str]:
        """The same for the command line: `tfcsr run` with these is this very run."""
        flags = []
        for name, value in self.given().items():
            flags.append(f"--{name.replace('_', '-')}")
            if not isinstance(value, bool):
                # Every digit of a number: the run is its spec.
                flags.append(repr(value) if isinstance(value, float) else format_value(value))
        return flags

    def key(self) -> str:
        """A short name for everything that decides the outcome."""
        identity = {k: v for k, v in self.to_dict().items() if k not in NOT_IDENTITY}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]

    def name(self) -> str:
        return f"{self.method}-seed{self.seed}-{self.key()}"


OPTIONS: dict[str, Option] = {f.name: f.metadata["option"] for f in fields(RunSpec)}


def checked(name: str, value: Any) -> Any:
    """The value as the field's type, within its bounds; text, as from a command line, is read first."""
    entry = OPTIONS[name]
    if entry.type is tuple:
        return _class_order(value)
    if entry.type in (int, float) and isinstance(value, str):
        try:
            value = entry.type(value)
        except ValueError:
            raise SpecError(f"{name} {value!r} is not {_KINDS[entry.type]}") from None
    if entry.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, bool) != (entry.type is bool) or not isinstance(value, entry.type):
        raise SpecError(f"{name} {value!r} is not {_KINDS[entry.type]}")
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if entry.choices is not None and value not in entry.names():
            raise SpecError(f"unknown {name} {value!r}: use one of {', '.join(entry.names())}")
        if name == "device" and value not in ("auto", "cpu", "cuda") and not value.removeprefix("cuda:").isdecimal():
            raise SpecError(f"unknown device {value!r}: use auto, cpu, cuda or cuda:N")
    elif not entry.low <= value <= entry.high:
        raise SpecError(f"{name} {format_value(value)} is impossible: it must be {_bounds(entry)}")
    return value


def matters(name: str, method: str) -> bool:
    """Whether a field makes a difference to a method; of methods that are not ours, any may."""
    methods = OPTIONS[name].of if name in OPTIONS else ()
    return not methods or method in methods or not METHODS.ships(method)


_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _bounds(entry: Option) -> str:
    if entry.high == math.inf:
        return f"at least {format_value(entry.low)}"
    return f"between {format_value(entry.low)} and {format_value(entry.high)}"


def _class_order(value: Any) -> int | tuple[int, ...]:
    if isinstance(value, str):
        try:
            numbers = tuple(int(part) for part in value.split(","))
        except ValueError:
            raise SpecError(f"class_order {value!r} is neither a seed nor a list of classes like 3,1,2") from None
        value = numbers if "," in value else numbers[0]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    if isinstance(value, list | tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        return tuple(value)
    raise SpecError(f"class_order {value!r} is neither a seed from 0 on nor a list of classes")


def format_value(value: Any) -> str:
    """As a person would type it."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def default_text(name: str) -> str:
    """What a field is when it is not given, with the benchmarks, methods and protocols in which it differs."""
    default = OPTIONS[name].default
    if default is None:
        return ""
    special = {b: BENCHMARKS.get(b).defaults for b in BENCHMARKS.names()} | dict(METHOD_DEFAULTS)
    special |= {f"protocol {p}": values for p, values in PROTOCOLS.items()}
    others = [f"{format_value(values[name])} with {where}" for where, values in special.items() if name in values]
    return "; ".join([f"default: {format_value(default)}", *others])


def load_spec_file(path: str | Path) -> dict[str, Any]:
    """The fields in a JSON or TOML file, unchecked: `RunSpec.from_dict` checks them."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise SpecError(f"cannot read the spec file {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path} is not valid {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}") from None
    if not isinstance(values, dict):
        raise SpecError(f"{path} does not hold an object with spec fields but a {type(values).__name__}")
    return values
