"""Everything that determines a run, in one frozen object. The Python API, the command line's flags and help, the spec
files and the documentation are all made from it.

Every run has the fields below. The chosen method, model, policy, schedule and benchmark add options, which they declare
in their own files.
"""

import difflib
import functools
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any, Self

from tfcsr import plugins
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.benchmarks.base import SCENARIOS
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.options import UNSET, Option, format_value
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.registry import Registry

REGISTRIES: tuple[Registry[Any], ...] = (METHODS, BENCHMARKS, MODELS, POLICIES, SCHEDULES)

# Where its files and its buffer lie, how often it is saved and what is kept of it do not decide a run's outcome.
NOT_IDENTITY = ("buffer_on", "checkpoint_every", "checkpoint_seconds", "data_dir", "keep_model", "out")
# What only a run through a benchmark has; a learner's data comes as it comes.
OF_BENCHMARKS = (
    *("benchmark", "scenario", "tasks", "class_order", "repeat", "max_per_class", "evaluate_every", "pixels", "steps"),
    "new_task",
    # Nor is a learner bound to those it began with: each learn has as many as torchrun starts for it.
    *("data_dir", "keep_model", "out", "processes"),
)
# Tasks of a benchmark that changes its images from task to task.
MOST_CHANGES = 100
# The model of a learner that was given one made by hand.
OWN = "own"

# Under this name a run's spec file says where it comes from beside the spec: see `experiments/origin.py`.
ORIGIN = "origin"


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


def _device(value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(f"device {value!r} is not text")
    if value not in ("auto", "cpu", "cuda") and not value.removeprefix("cuda:").isdecimal():
        raise SpecError(f"unknown device {value!r}: use auto, cpu, cuda or cuda:N")
    return value


def _field(kind: type, default: Any, help: str, **more: Any) -> Any:
    return Option("field", kind, default, help, **more)  # its name is that of the attribute


class RunSpec:
    """One run. Fields that are not given take the defaults of the benchmark, the method and the protocol at once. So a
    spec always shows the values in force. Options of its parts are attributes too: `spec.buffer_capacity`.
    """

    benchmark: str = _field(str, "split-digits", "the sequence of tasks", choices=BENCHMARKS)
    method: str = _field(str, "tfcsr", "the continual-learning method", choices=METHODS)
    protocol: str = _field(
        str,
        "default",
        "`paper` follows the paper where our defaults differ; fields given by hand win",
        choices=("default", "paper"),
    )
    model: str = _field(str, "cnn", "the network", choices=MODELS)
    seed: int = _field(int, 0, "the seed of all random generators", low=0, high=2**63 - 1)
    scenario: str = _field(
        str,
        "class",
        "what is asked at test time. `class`: which of all classes. `domain`: which label, with the same labels in"
        " every task (a class's label is its place within its task). `task`: which class of the task, which is given",
        choices=SCENARIOS,
    )
    tasks: int = _field(
        int, None, "number of tasks the classes are split into; the last may be smaller (default: by benchmark)", low=1
    )
    class_order: int | tuple[int, ...] = _field(
        tuple,
        42,
        "the order of the classes: the seed of a shuffle, or a list of all classes like 3,1,2; the paper has 42",
        read=_class_order,
    )
    repeat: float = _field(
        float,
        0.0,
        "from task 2 on: share of a task's training examples that are drawn from classes seen before",
        low=0,
        high=0.95,
    )
    max_per_class: int = _field(
        int, 0, "at most so many training examples of each class, for a quick try; 0: all", low=0
    )
    held_out: float = _field(
        float,
        0.0,
        "share of each class's training data held out, to choose settings on instead of the test set",
        low=0,
        high=0.5,
        paper=0.0,
    )
    evaluate_every: int = _field(
        int,
        1,
        "tasks from one evaluation on the test set to the next; the last task is always evaluated. Training does not"
        " depend on it. With thousands of tasks, evaluations after each take most of the time and of the files",
        low=1,
        high=10**6,
    )
    pixels: str = _field(
        str,
        "standard",
        "pixel values: `standard`, normalised by the dataset's mean and standard deviation; or `unit`, from 0 to 1",
        choices=("standard", "unit"),
    )
    epochs: int = _field(int, 10, "passes over each task's training data", low=1, high=10**6)
    steps: int = _field(
        int, 0, "optimizer steps on each task, in passes over its data, instead of epochs; 0: use epochs", low=0
    )
    batch_size: int = _field(
        int, 64, "examples in a batch; in a mixed batch half of them are replayed", low=2, high=10**6
    )
    optimizer: str = _field(
        str, "adam", "the optimizer; its state is never reset between tasks", choices=("adam", "adamw", "sgd")
    )
    lr: float = _field(float, 1e-3, "the learning rate; with a learning-rate schedule, its peak", low=1e-12, high=1e3)
    weight_decay: float = _field(
        float, 0.0, "weight decay: L2 in the gradient, or decoupled with adamw", low=0, high=1e3
    )
    momentum: float = _field(
        float, 0.9, "momentum of sgd; adam and adamw have moments of their own", low=0, high=0.9999
    )
    lr_schedule: str = _field(
        str,
        "constant",
        "learning-rate schedule within each task: `constant`, or `cosine`, which falls to 0 by the last step",
        choices=("constant", "cosine"),
    )
    warmup_epochs: float = _field(
        float, 0.0, "warm-up epochs at the start of each task, in which the learning rate rises from 0", low=0, high=1e6
    )
    new_task: str = _field(
        str,
        "current",
        "the task that a batch's new examples come from: the `current` one, or in every task the `last` one (the"
        " left-over loader that made the paper's ER on Split MNIST)",
        choices=("current", "last"),
    )
    augment: str = _field(
        str,
        "none",
        "data augmentation. `crop-flip`: random shifts by up to an eighth of the size, and random mirroring. `strong`:"
        " also random colours, and a small square cut out",
        choices=("none", "crop-flip", "strong"),
    )
    device: str = _field(str, "auto", "`cpu`, `cuda`, `cuda:1`, or `auto`: the GPU where there is one", read=_device)
    precision: str = _field(
        str,
        "auto",
        "precision of forward and backward passes; weights stay fp32. `auto`: bf16 on a GPU, fp32 on a CPU;"
        " `tf32` needs a GPU",
        choices=("auto", "fp32", "tf32", "bf16"),
    )
    deterministic: bool = _field(
        bool,
        False,
        "on a GPU: the same bits every time, alone or beside other runs, at some cost in speed; a CPU always gives"
        " the same bits",
    )
    threads: int = _field(
        int,
        0,
        "CPU threads; part of the spec because they decide the last bits. 0: all cores, or 1 in a comparison",
        low=0,
        high=1024,
    )
    processes: int = _field(
        int,
        1,
        "processes that train one network together, each with its share of every batch: as many as"
        " `torchrun --nproc-per-node N -m tfcsr` has started. Part of the spec because they decide the last bits",
        low=1,
        high=1024,
    )
    sync_batch_norm: bool = _field(
        bool,
        False,
        "with several processes: batch normalisation over the whole batch, as in one process, and not over the share of"
        " each",
    )
    checkpoint_every: int = _field(
        int,
        0,
        "checkpoint interval in epochs; a run can resume from a checkpoint. 0: every epoch, or less often, so that"
        " checkpoints take no more than 2 % of the time",
        low=0,
        high=10**6,
    )
    checkpoint_seconds: float = _field(
        float,
        0.0,
        "checkpoint interval in seconds, instead: a checkpoint follows the first epoch that ends so long after the"
        " last checkpoint",
        low=0,
        high=1e9,
    )
    keep_model: bool = _field(bool, True, "keep the trained network as model.safetensors, for `tfcsr predict`")
    data_dir: str | None = _field(str, None, "the data folder (default: $TFCSR_DATA, then the user's cache)")
    out: str | None = _field(str, None, "the folder of the run's files")

    @classmethod
    def fields(cls) -> "Mapping[str, Option]":
        """The fields that every spec of this kind has."""
        return FIELDS

    def __init__(self, **given: Any) -> None:
        self._resolve({name: value for name, value in given.items() if value is not None})
        self._check_together()

    def _resolve(self, given: dict[str, Any]) -> None:
        parts = Parts(given, self.fields())
        for name in given:
            if name not in parts.options:
                raise SpecError(parts.why_not(name))
        values = {
            name: option.checked(given[name]) if name in given else parts.default(option)
            for name, option in parts.options.items()
        }
        vars(self).update(values, _options=parts.options, _given=frozenset(given))

    def _check_together(self) -> None:
        benchmark = BENCHMARKS.get(self.benchmark)
        classes = benchmark.classes
        self._check_scenario(benchmark)
        if benchmark.change is None and self.tasks > classes:
            raise SpecError(
                f"tasks {self.tasks} is more than the {classes} classes of {self.benchmark}: use 1..{classes}"
            )
        if isinstance(self.class_order, tuple) and sorted(self.class_order) != list(range(classes)):
            raise SpecError(
                f"class_order {format_value(self.class_order)} does not name each class of {self.benchmark} once:"
                f" list 0..{classes - 1} in any order, or give a seed"
            )
        self._check_training()

    def _check_scenario(self, benchmark: Benchmark) -> None:
        scenario, method = self.scenario, METHODS.get(self.method)
        if scenario not in benchmark.scenarios:
            raise SpecError(
                f"scenario {scenario} is not one of {self.benchmark}, whose tasks all have the same classes: use"
                f" {' or '.join(benchmark.scenarios)}"
            )
        if scenario not in method.scenarios:
            raise SpecError(
                f"{self.method} has no meaning in scenario {scenario}: use it with {' or '.join(method.scenarios)}"
            )
        if scenario == "domain" and benchmark.change is None:
            each, rest = divmod(benchmark.classes, self.tasks)
            if rest or each < 2:
                raise SpecError(
                    f"tasks {self.tasks} does not cut the {benchmark.classes} classes of {self.benchmark} into tasks of"
                    " the same labels, two or more: scenario domain needs that"
                )
        if benchmark.change is not None and self.tasks > MOST_CHANGES:
            raise SpecError(
                f"tasks {self.tasks} is too many for {self.benchmark}, which keeps the test images of each: use at most"
                f" {MOST_CHANGES}"
            )
        if self.repeat and (scenario != "class" or benchmark.change is not None):
            raise SpecError(f"repeat {self.repeat:g} is for scenario class, where classes arrive once: use 0")

    def _check_training(self) -> None:
        if self.precision == "tf32" and self.device == "cpu":
            raise SpecError("precision tf32 needs a GPU: use fp32 or bf16 with device cpu")
        if self.optimizer != "sgd" and self.momentum != FIELDS["momentum"].default:
            raise SpecError(f"momentum {self.momentum:g} is sgd's: {self.optimizer} has moments of its own")
        METHODS.get(self.method).check(self)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what the spec does not have; a dunder is somebody's question, not an option.
        if name.startswith("_") or "_options" not in vars(self):
            raise AttributeError(name)
        raise AttributeError(f"{name} is no field of this spec: {Parts(self.to_dict(), self.fields()).why_not(name)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a spec is frozen: use spec.replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a spec is frozen")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash(tuple(self.values().items()))

    def __repr__(self) -> str:
        shown = {name: vars(self)[name] for name in self._chosen()} | {"seed": self.seed} | self.given()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.to_dict(), self._given)

    def values(self) -> dict[str, Any]:
        """Every field and option with its value."""
        return {name: vars(self)[name] for name in self._options}

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The value of an option; `otherwise` if this run does not have it."""
        return vars(self)[name] if name in self._options else otherwise

    def options(self) -> dict[str, Option]:
        """Every field and option that applies to this run."""
        return dict(self._options)

    def options_of(self, registry: Registry[Any], name: str) -> dict[str, Any]:
        """The values of an entry's own options, as keyword arguments."""
        return {option.name: vars(self)[option.name] for option in registry.options(name)}

    def governed(self) -> list[str]:
        """The fields for which the paper's protocol has a value."""
        return [name for name, option in self._options.items() if option.paper is not UNSET]

    def replace(self, **changes: Any) -> Self:
        """A copy with other values. Fields that were given by hand keep their values. The others take the defaults that
        go with the new values, for example of another method. Options that the new parts do not have are dropped.
        """
        kept = {name: vars(self)[name] for name in self._given if name not in changes}
        parts = Parts(kept | {name: value for name, value in changes.items() if value is not None}, self.fields())
        return type(self)(**{name: value for name, value in kept.items() if name in parts.options} | changes)

    def to_dict(self) -> dict[str, Any]:
        """Every field and option with its value, as JSON can hold it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.values().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A spec from a dict. An unknown name is an error."""
        return cls(**values)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """A spec from a run's file, of this version or an older one. Old files hold options of other methods: those are
        dropped. Options that did not exist yet get the value they amounted to then.
        """
        parts = Parts({name: value for name, value in values.items() if value is not None}, cls.fields())
        known = {name: value for name, value in values.items() if name in parts.options or name not in known_options()}
        first = {name: o.before for name, o in parts.options.items() if o.before is not UNSET and name not in values}
        spec = cls(**known | first)
        # Nobody knows any more what was given: what differs from the defaults must have been.
        beside = {name for name in NOT_IDENTITY if known.get(name) is not None}
        vars(spec)["_given"] = frozenset(spec.given()) | beside
        return spec

    def given(self) -> dict[str, Any]:
        """The fields to give to get this run: those that differ from their defaults."""
        chosen = {name: vars(self)[name] for name in self._chosen()}
        if self.protocol != FIELDS["protocol"].default:
            chosen["protocol"] = self.protocol
        values = self.to_dict()
        # A part that is not the default one brings options: it has to be chosen before they can be left at theirs.
        while True:
            by_itself = type(self)._unchecked(chosen).to_dict()
            others = {
                name: value
                for name, value in values.items()
                if name not in NOT_IDENTITY and name not in chosen and value != by_itself.get(name, UNSET)
            }
            parts = {n: v for n, v in others.items() if isinstance(self._options[n].choices, Registry)}
            if not parts:
                return chosen | others
            chosen |= parts

    @classmethod
    def _chosen(cls) -> list[str]:
        """The fields that say what a run is in the first place."""
        return [name for name in ("benchmark", "method") if name in cls.fields()]

    @classmethod
    def _unchecked(cls, given: dict[str, Any]) -> Self:
        """Without asking whether the fields go together: some defaults need company."""
        spec = cls.__new__(cls)
        spec._resolve(given)
        return spec

    def flags(self) -> list[str]:
        """The same as command-line flags: `tfcsr run` with these is this very run."""
        flags = []
        for name, value in self.given().items():
            flags.append(f"--{name.replace('_', '-')}")
            if not isinstance(value, bool):
                # Every digit of a number: the run is its spec.
                flags.append(repr(value) if isinstance(value, float) else format_value(value))
            elif not value:
                flags[-1] = f"--no-{name.replace('_', '-')}"
        return flags

    def identity(self) -> dict[str, Any]:
        """The values that decide the outcome and differ from their first default: a new option changes no old key."""
        known: dict[str, Any] | None = vars(self).get("_identity")
        if known is None:  # a study asks for that of thousands of runs, again and again
            differ = {name for name, value in self.values().items() if value != self._options[name].first}
            known = vars(self)["_identity"] = {
                name: value
                for name, value in self.to_dict().items()
                if name not in NOT_IDENTITY and (name in ("benchmark", "method") or name in differ)
            }
        return dict(known)

    def key(self) -> str:
        """A short hash of everything that decides the outcome."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:10]

    def name(self) -> str:
        """The name of its folder in a comparison: method, seed and key."""
        return f"{self.method}-seed{self.seed}-{self.key()}"


def _restored(kind: type[RunSpec], values: dict[str, Any], given: frozenset[str]) -> RunSpec:
    """A spec that was copied or sent to another process; there, a plugin's parts have to be known too."""
    spec = kind._unchecked({name: value for name, value in values.items() if value is not None})
    vars(spec)["_given"] = given
    return spec


FIELDS: dict[str, Option] = {
    name: with_changes(option, name=name) for name, option in vars(RunSpec).items() if isinstance(option, Option)
}
for _name in FIELDS:
    delattr(RunSpec, _name)  # a spec that lacks a value must not answer with the option


class LearnerSpec(RunSpec):
    """What a learner is and how it learns: the fields of a run, without those that need a benchmark."""

    @classmethod
    def fields(cls) -> Mapping[str, Option]:
        return _LEARNER_FIELDS

    def _check_together(self) -> None:
        self._check_training()


def _model(value: Any) -> str:
    return OWN if value == OWN else str(FIELDS["model"].checked(value))


_LEARNER_FIELDS = {name: option for name, option in FIELDS.items() if name not in OF_BENCHMARKS}
_LEARNER_FIELDS["model"] = with_changes(FIELDS["model"], read=_model)
# A run is the paper's unless another method is asked for; what is kept and used has our own, best on Split CIFAR-100.
_LEARNER_FIELDS["method"] = with_changes(FIELDS["method"], default="tfcsr-distill")


class Parts:
    """The options that apply to the given fields, with their defaults."""

    def __init__(self, given: Mapping[str, Any], fields: Mapping[str, Option] | None = None) -> None:
        fields = FIELDS if fields is None else fields

        def choice(name: str) -> Any:
            option = fields.get(name, FIELDS[name])
            return option.checked(given.get(name, option.default))

        self.protocol = choice("protocol")
        self.from_benchmark: dict[str, Any] = {}
        if "benchmark" in fields:
            benchmark = BENCHMARKS.get(choice("benchmark"))
            self.from_benchmark = {"tasks": benchmark.tasks} | dict(benchmark.defaults)
        self.method = choice("method")
        self.from_method = dict(METHODS.get(self.method).defaults)
        self.options = dict(fields)
        self.chosen_by: dict[str, str] = {}  # of a part's option, the field or option that chooses the part
        todo = list(fields.values())
        for option in todo:
            if isinstance(option.choices, Registry):
                name = option.checked(given.get(option.name, self.default(option)))
                if name == OWN:
                    continue
                for own in option.choices.options(name):
                    if hasattr(RunSpec, own.name) or self.options.setdefault(own.name, own) is not own:
                        raise SpecError(
                            f"{option.choices.kind} {name} has an option {own.name}, a name that is taken: choose"
                            " another for it"
                        )
                    self.chosen_by[own.name] = option.name
                    todo.append(own)
        for source in (self.from_benchmark, self.from_method):
            for name in source:
                if name not in self.options and name not in known_options():
                    raise SpecError(f"a default is set for an {unknown_field(name, [self.options])}")

    def default(self, option: Option) -> Any:
        """What an option is when it is not given: by the protocol, the method, the benchmark, or itself."""
        if self.protocol == "paper" and option.paper is not UNSET:
            return option.paper
        for source in (self.from_method, self.from_benchmark):
            if option.name in source:
                return option.checked(source[option.name])
        return option.default

    def why_not(self, name: str) -> str:
        """Why a name is no field of a run."""
        owners = known_options().get(name)
        if owners is not None and name not in self.options:
            return f"{name} is an option of {_some(owners)}, which this run does not use"
        return unknown_field(name, [self.options])


def unknown_field(name: str, known: Sequence[Mapping[str, Option]]) -> str:
    """That nothing is called so, and what is: the options of one run or of several."""
    names = list(dict.fromkeys(name for options in known for name in options))
    hint = suggestion(name, names)
    return f"unknown spec field {name!r}: {hint and hint + ' '}the fields are {', '.join(names)}"


# What others call our fields.
ELSEWHERE = {
    "buffer_size": "buffer_capacity",
    "dataset": "benchmark",
    "learning_rate": "lr",
    "memory_size": "buffer_capacity",
    "output": "out",
    "scheduler": "lr_schedule",
}


def suggestion(name: str, names: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """A question for what may be meant by a name that is none of these; of an option of other parts, with these."""
    there, owners = list(names), known_options()
    others = [other for other, of in owners.items() if other not in there and EVERY_RUN not in of]
    near = nearest(name, [*there, *others]) or nearest(name, there)
    if near is None:
        return ""
    return f"did you mean {shown(near)}{'' if near in there else f', an option of {_some(owners[near])}'}?"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The one of these that a misspelt name comes closest to, if one is close; of two alike, the first.

    Names are compared word by word: `schedule` is not meant by `lr_schedule`, though most of the letters are the same.
    """
    words = name.lower().replace("-", "_").strip("_").split("_")
    words = words[1:] if words[0] in ("n", "num") and len(words) > 1 else words
    known = ELSEWHERE.get("_".join(words))
    if known in names:
        return known
    scores = {other: _likeness(words, other.split("_")) for other in names}
    best = max(scores, key=lambda other: scores[other], default=None)
    if best is not None and scores[best] > 0:
        return best
    # Part of a longer name, `threshold`, says which where there is only one such.
    longer = [other for other in names if set(words) <= set(other.split("_"))]
    return longer[0] if len(longer) == 1 else None


def _likeness(words: Sequence[str], others: Sequence[str]) -> float:
    """From 0, another name, to 1, the same but for hyphens."""

    def ratio(one: str, other: str) -> float:
        return difflib.SequenceMatcher(None, one, other).ratio()

    if "".join(words) == "".join(others):
        return 1.0
    pairs = list(zip(words, others, strict=False)) if len(words) == len(others) else []
    close = pairs and all(ratio(*pair) >= 0.6 for pair in pairs)
    whole = ratio("_".join(words), "_".join(others))
    return whole if close and whole >= 0.7 else 0.0


def _some(owners: Sequence[str]) -> str:
    more = f" and {len(owners) - 3} more" if len(owners) > 3 else ""
    return f"{', '.join(owners[:3])}{more}"


# The owner of a field.
EVERY_RUN = "every run"


def known_options() -> Mapping[str, Sequence[str]]:
    """Every option that any known part has, with the parts that have it."""
    plugins.load_announced()
    return _known_options(Registry.changes)


@functools.lru_cache(maxsize=1)
def _known_options(changes: int) -> dict[str, list[str]]:
    """Kept until the registries change: thousands of specs are read from a folder of results."""
    owners = {name: [EVERY_RUN] for name in FIELDS}
    for registry in REGISTRIES:
        for name in registry.forms():
            for option in registry.options(name):
                owners.setdefault(option.name, []).append(f"{registry.kind} {name}")
    return owners


def default_text(option: Option, parts: Parts | None = None) -> str:
    """What an option is when it is not given; with the benchmarks and the protocol in which it differs."""
    default = parts.from_method.get(option.name, option.default) if parts is not None else option.default
    if default is None:
        return ""
    others = []
    if parts is None or option.name not in parts.from_method:
        defaults = {name: BENCHMARKS.get(name).defaults for name in BENCHMARKS.names()}
        others = [f"{format_value(d[option.name])} with {b}" for b, d in defaults.items() if option.name in d]
    if option.paper is not UNSET and option.paper != default:
        others.append(f"{format_value(option.paper)} with protocol paper")
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
    values.pop(ORIGIN, None)  # a run's own spec file also says where it comes from
    return values
