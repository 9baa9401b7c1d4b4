"""What a method may do: everything it does not override is plain training on the newest task.

A method is one file: its options, what it adds to the loss, what it stores and draws, how it predicts. It imports torch
through `tfcsr.late`, so that its options are known without it; a plugin need not.
"""

import copy
import difflib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks.base import SCENARIOS
from tfcsr.errors import SpecError
from tfcsr.late import torch
from tfcsr.options import Option
from tfcsr.recall.schedule import SCHEDULES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfcsr.buffer.policies.base import Field
    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner
    from tfcsr.spec import RunSpec

# Far below any logit: no probability is left for it, and no infinity that a difference would turn into no number.
NEVER = -1e4

# Of every method that keeps a buffer: one that lists these has one.
BUFFER = (
    Option("buffer_capacity", int, 200, "capacity of the replay buffer, in examples", low=1, high=10**8),
    Option("policy", str, "reservoir", "the policy that decides which examples the buffer keeps", choices=POLICIES),
    Option(
        "buffer_on",
        str,
        "ram",
        "where the buffer's examples lie: in memory (`ram`), or in a file of the run's or learner's folder (`disk`),"
        " which may be larger than the memory; the results are the same",
        choices=("ram", "disk"),
    ),
    Option(
        "exam_share",
        float,
        0.0,
        "share of buffer_capacity used as an exam: examples that are never trained on, and that probes then test",
        low=0,
        high=0.9,
    ),
)


def _replay_epochs(value: Any) -> str:
    """`all`, or the numbers of a task's epochs, each once, ascending: `3,1` is `1,3`. Or one of these for each task,
    divided by `/`: `none/1,3/2`; what is said of the last task is not said again.
    """
    if value in ("all", "none", "due"):
        return str(value)
    tasks = [value] if isinstance(value, list | tuple) else str(value).split("/")
    read = [_task_epochs(task, value) for task in tasks]
    while len(read) > 1 and read[-1] == read[-2]:
        read.pop()
    return "/".join(read)


def _task_epochs(listed: Any, value: Any) -> str:
    if isinstance(listed, str) and listed.strip() in ("all", "none"):
        return listed.strip()
    whole = listed if isinstance(listed, list | tuple) else listed.split(",")
    parts = [str(part).strip() for part in whole]
    if not parts or not all(part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise SpecError(
            f"replay_epochs {value!r} is neither all, none, due nor a list of a task's epochs like 1,3,5, nor such a"
            " list for each task like none/1,3/2"
        )
    return ",".join(map(str, sorted({int(part) for part in parts})))


def is_listed(replay_epochs: str, task: int, epoch: int) -> bool:
    """Whether this epoch of a task, both from 1, has replay. The last list holds for all tasks after it."""
    tasks = replay_epochs.split("/")
    listed = tasks[min(task, len(tasks)) - 1]
    return listed == "all" or (listed != "none" and str(epoch) in listed.split(","))


def exam_capacity(spec: "RunSpec") -> int:
    """How many of the examples that a method may keep are its exam: one at least, and never all of them."""
    share = spec.get("exam_share", 0.0)
    return min(spec.buffer_capacity - 1, max(1, int(spec.buffer_capacity * share))) if share else 0


# Of every method that mixes batches.
REPLAY = (
    Option(
        "buffer_fill",
        str,
        "before",
        "when a task's examples enter the buffer: `before` training on the task, so that some of them are replayed, or"
        " `after`",
        choices=("before", "after"),
    ),
    Option(
        "new_data",
        str,
        "all",
        "new examples that an epoch of mixed batches uses: `all`, or `half`, as in the paper (the first half of each"
        " batch drawn; the rest goes unused)",
        choices=("all", "half"),
        paper="half",
    ),
    Option(
        "replay_view",
        str,
        "fresh",
        "augmentation of replayed examples: a `fresh` view each time, or the one `frozen` view stored, as in the paper",
        choices=("fresh", "frozen"),
        paper="frozen",
    ),
    Option(
        "replay_epochs",
        str,
        "all",
        "epochs of a task with replay (mixed batches): `all`, `none`, a list like 1,3,5, or `due`: those that the"
        " method's schedule names, if it has one; none/1,3/2 lists those of each task, the last for all after it",
        read=_replay_epochs,
    ),
    Option("replay_per_batch", int, 0, "replayed examples in a mixed batch; 0: half", low=0, high=10**6),
    Option(
        "unmixed",
        str,
        "full",
        "batches of an epoch without replay: `full` of new examples; or, as a control, with the `same` new examples as"
        " a mixed batch and none in place of the replayed ones, in all tasks or from the second on (`later`)",
        choices=("full", "same", "later"),
    ),
)
# Of every method that goes by a schedule.
SCHEDULE = (
    Option("schedule", str, "expanding", "the schedule that sets when the next probe is due", choices=SCHEDULES),
    Option(
        "schedule_per",
        str,
        "memory",
        "one schedule for the whole `memory`, or one for each `class`",
        choices=("memory", "class"),
    ),
    Option(
        "replay_least",
        int,
        0,
        "with replay_epochs due: replay batches that a task has at least, evenly spread over it; where epochs that are"
        " due fall behind, others replay too",
        low=0,
        high=10**9,
    ),
)
# Of every method that asks what is recalled of it.
PROBE = (
    Option("probe_size", int, 256, "the most examples that a probe tests", low=1, high=10**8),
    Option(
        "probe_mode",
        str,
        "eval",
        "how a probe runs: `eval` mode, as in the paper; `train` mode, in which batch-norm statistics change;"
        " `placebo`, which only draws numbers from the replay generator; or `none`. The last two count as passed",
        choices=("eval", "train", "placebo", "none"),
    ),
)


@dataclass(frozen=True)
class Mix:
    """How an epoch's batches are composed: of every `stride` new examples the first `new`, and `replay` old ones; of so
    many `examples` drawn from all there are, where it is not all of them.
    """

    new: int
    replay: int
    stride: int
    examples: int | None = None


@dataclass(frozen=True)
class Batch:
    """One batch as the model sees it: `new` new examples first, then the replayed, with all that is stored of them.
    Where images have a `patch` of another (option `cutmix`), `blend` gives what a loss is by both labels. `features`
    are there for a method that `reads_features`.
    """

    x: "Tensor"
    y: "Tensor"
    new: int
    stored: "Mapping[str, Tensor]"
    patch: "Tensor | None" = None
    features: "Tensor" = None  # type: ignore[assignment]

    @property
    def replayed(self) -> int:
        return len(self.y) - self.new

    def blend(self, loss: "Callable[[Tensor], Tensor]") -> "Tensor":
        """A loss by the labels of the images; of images with a patch, by the labels of the patches too, each as much as
        it has of the image.
        """
        if self.patch is None:
            return loss(self.y)
        from tfcsr.data.views import before_it, own_share

        own = own_share(self.patch, self.x.shape)
        return own * loss(self.y) + (1 - own) * loss(before_it(self.y, self.new))


def within(scores: "Tensor", y: "Tensor", task_of: "Tensor | None", otherwise: float = NEVER) -> "Tensor":
    """Scores [N, classes] of examples with these labels; by the task of each class, with those of all other tasks'
    classes set to `otherwise`.
    """
    return scores if task_of is None else scores.masked_fill(task_of[y][:, None] != task_of, otherwise)


class Method:
    """Plain training. The loop calls the hooks in the order they stand here.

    What a method sets on itself is saved with the run and comes back when it is resumed: tensors, numbers, text, lists,
    tuples, dicts, and frozen copies of the network.

    On a GPU the step, with `loss`, `penalty` and `after_step`, is recorded and replayed: what they use must be tensors,
    changed in place; where anything else changes in between, at the end of a task say, the step is recorded anew.
    """

    options: ClassVar[tuple[Option, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}
    """What other fields are when this method is chosen and they are not given."""
    version: ClassVar[int] = 1
    """Raised when the same spec gives other bits than before: results of an earlier version are then not reused."""
    hooks: ClassVar[tuple[str, ...]] = ()
    """What the method lets its own subclasses override, beside the hooks below."""
    scenarios: ClassVar[tuple[str, ...]] = SCENARIOS
    """In which it has a meaning. One with a `loss` of its own that does not say so has none in `task`: see `within`."""
    sees_all_tasks: ClassVar[bool] = False
    """Only an upper bound trains on more than the newest task."""
    reads_features: ClassVar[bool] = False
    """Whether `loss` reads `batch.features`: what the network's last layer was fed with."""
    outside_step: ClassVar[tuple[str, ...]] = ()
    """The names in `state_dict` that neither `loss`, `penalty` nor `after_step` reads."""
    style: ClassVar[tuple[str, str] | None] = None
    """Its colour and line in figures; else one that is free. Not inherited."""
    baseline: ClassVar[int] = 0
    """Of several methods, the one with the highest is what the others are compared with by default. Not inherited."""

    def __init__(self, learner: "Learner") -> None:
        self.learner = learner
        self.spec = learner.spec

    @classmethod
    def check(cls, spec: "RunSpec") -> None:
        """Refuse, with a SpecError, values that do not go together."""

    @classmethod
    def fields(cls, classes: int) -> "Mapping[str, Field]":
        """What is stored beside each example of the buffer; its bytes count."""
        return {}

    def epochs(self) -> int:
        """The most epochs a task is trained for."""
        return self.spec.epochs

    def passes(self, examples: int, steps: int = 0) -> int:
        """The most epochs for a task of so many examples; where steps count instead, about how many passes they make,
        each of so many `steps`.
        """
        if not (wanted := int(self.spec.get("steps", 0))):
            return self.epochs()
        return math.ceil(wanted / (steps or max(1, round(examples / self.spec.batch_size))))

    def grow(self, before: int) -> None:
        """The network's head has just got outputs for new classes; it had `before`. What a method keeps must follow.

        Done here: frozen copies of the network, lists with a tensor for each of `parameters`, and tensors with a number
        for each class. New entries are 0; those of a frozen copy, as in the network.
        """
        for name, value in vars(self).items():
            if name not in ("learner", "spec"):
                setattr(self, name, self._grown(value, before))

    def begin_task(self, task: "Task") -> None:
        """Before the first step of a task."""

    def mix(self, task: "Task", epoch: int) -> Mix:
        """How this epoch's batches are composed."""
        return Mix(new=self.spec.batch_size, replay=0, stride=self.spec.batch_size)

    def draw(self, batches: int, replay: int) -> "Tensor":
        """Which examples of the buffer an epoch replays: positions, a row of `replay` for each batch."""
        return self.learner.buffer.draw(batches, replay, self.learner.generators["replay"])

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        """What the step lowers."""
        return torch.nn.functional.cross_entropy(self.within(logits, batch.y), batch.y)

    def within(self, logits: "Tensor", y: "Tensor") -> "Tensor":
        """The logits that a loss for these labels ranges over. In scenario `task` those of other tasks are put out of
        reach; else they stay as they are.
        """
        return self.learner.within(logits, y)

    def penalty(self) -> "Tensor | None":
        """What is added to the loss of every batch."""
        return None

    def after_step(self) -> None:
        """After the optimizer's step; the gradients of the whole loss are still there."""

    def end_epoch(self, task: "Task", epoch: int) -> bool:
        """After an epoch, from 1. True: the task is done, whatever epochs are left."""
        return False

    def end_task(self, task: "Task") -> None:
        """After the last epoch of a task, before it is evaluated."""

    def store(self, x: "Tensor", y: "Tensor") -> "dict[str, Tensor]":
        """The values of `fields` for examples that the buffer has just taken in, as they are stored."""
        return {}

    def predict(self, x: "Tensor") -> "Tensor":
        """A score for each class, for stored images: what evaluation and probe go by."""
        return self.learner.logits(x)

    def exported(self) -> "nn.Module":
        """A network that answers normalised examples as `predict` does stored ones, to be used without this package."""
        return self.learner.model

    def state_dict(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("learner", "spec")}
        return {name: {NETWORK: v.state_dict()} if is_network(v) else v for name, v in own.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        for name, value in state.items():
            # A file decides over values, not over what is done.
            if name in ("learner", "spec") or callable(getattr(type(self), name, None)):
                raise ValueError(f"{name} is no state of a method")
            if isinstance(value, dict) and value.keys() == {NETWORK}:
                network = self.learner.frozen_copy()
                network.load_state_dict(value[NETWORK])
                setattr(self, name, network)
            else:
                setattr(self, name, copy.deepcopy(value))

    def _grown(self, value: Any, before: int) -> Any:
        if is_network(value):
            network = self.learner.frozen_copy()
            mine = network.state_dict()
            for name, old in value.state_dict().items():
                mine[name][tuple(slice(size) for size in old.shape)] = old
            return network
        if isinstance(value, torch.Tensor):
            return _padded(value, (self.learner.classes,)) if value.shape == (before,) else value
        if isinstance(value, list) and value and all(isinstance(part, torch.Tensor) for part in value):
            shapes = [tuple(p.shape) for p in self.parameters()]
            if len(value) == len(shapes) and all(
                old.shape == new or (old.ndim and old.shape == (before, *new[1:]))
                for old, new in zip(value, shapes, strict=True)
            ):
                return [_padded(old, new) for old, new in zip(value, shapes, strict=True)]
        return value

    def parameters(self) -> "list[nn.Parameter]":
        return [p for p in self.learner.model.parameters() if p.requires_grad]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "loss" in vars(cls) and "scenarios" not in vars(cls):
            cls.scenarios = tuple(scenario for scenario in cls.scenarios if scenario != "task")
        for name, value in vars(cls).items():
            if name.startswith("_") or not callable(getattr(cls, name)):
                continue
            overridden = next((getattr(base, name) for base in cls.__mro__[1:] if hasattr(base, name)), None)
            if overridden is None and name in cls.hooks:
                continue
            if overridden is None:
                hooks = [n for n, v in inspect.getmembers(cls.__mro__[1], callable) if not n.startswith("_")]
                close = difflib.get_close_matches(name, hooks, 1)
                hint = f"did you mean {close[0]}? " if close else f"the hooks are {', '.join(hooks)}; "
                raise SpecError(
                    f"{cls.__name__}.{name} is no hook, so nothing would call it: {hint}begin the name of a function of"
                    " your own with an underscore"
                )
            _require_same_arguments(cls.__name__, name, value, overridden)


def _padded(old: "Tensor", shape: tuple[int, ...]) -> "Tensor":
    if old.shape == shape:
        return old
    new = old.new_zeros(shape)
    new[: len(old)] = old
    return new


NETWORK = "weights of a frozen copy of the network"


def is_network(value: Any) -> bool:
    # Asked this way a method without one does not wait for torch.
    return hasattr(value, "named_parameters") and hasattr(value, "state_dict")


def _require_same_arguments(owner: str, name: str, own: Any, overridden: Any) -> None:
    function = own.__func__ if isinstance(own, classmethod | staticmethod) else own
    if not inspect.isfunction(function):
        return
    if inspect.ismethod(overridden) and not isinstance(own, classmethod):
        raise SpecError(f"{owner}.{name} is asked before there is an object: put @classmethod above it")
    expected = list(inspect.signature(getattr(overridden, "__func__", overridden)).parameters.values())
    given = inspect.signature(function)
    try:
        given.bind(*expected)
    except TypeError:
        words = ", ".join(parameter.name for parameter in expected)
        raise SpecError(f"{owner}.{name} takes {given}, but is called with ({words})") from None
