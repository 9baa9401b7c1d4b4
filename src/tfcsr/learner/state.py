"""What a learner consists of: its network, what surrounds it, and its state."""

import contextlib
import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.disk import FOLDER as BUFFER
from tfcsr.buffer.disk import Version
from tfcsr.data.arriving import Form
from tfcsr.data.tasks import Examples
from tfcsr.data.views import Views
from tfcsr.errors import OutputError, SpecError, counted
from tfcsr.experiments.history import Noted
from tfcsr.experiments.machine import on_this_machine
from tfcsr.generators import derived_seed
from tfcsr.learner.folder import source_of
from tfcsr.learner.network import Each, Made, Normalisation, Normaliser, Transform, make_model, require_scores, taking
from tfcsr.learner.records import History, Instalment
from tfcsr.methods.base import exam_capacity
from tfcsr.models import MODELS
from tfcsr.models.head import named_head, resized, trace_head
from tfcsr.models.predict import predict
from tfcsr.spec import OWN, LearnerSpec, RunSpec
from tfcsr.training.events import Events
from tfcsr.training.loop import Loop, channels_last
from tfcsr.training.model_file import decoded, encoded

LARGEST_SIDE = 10_000

Model = str | nn.Module | Callable[..., nn.Module]


class State:
    """All that a learner is. What it does with that is said in `learner.py`, `asking.py` and `keeping.py`."""

    def __init__(
        self,
        model: Model = "cnn",
        method: str = "tfcsr-distill",
        *,
        head: str | None = None,
        size: int | None = None,
        normalise: Normalisation = "auto",
        transform: Transform | None = None,
        transform_each: Transform | None = None,
        **options: Any,
    ) -> None:
        name = model if isinstance(model, str) else OWN
        if not isinstance(model, str) and not callable(model):
            raise SpecError(f"model {model!r} is neither a name, a torch.nn.Module nor a function that makes one")
        if transform is not None and transform_each is not None:
            raise SpecError("transform and transform_each were both given: choose one")
        for name_of, given in (("transform", transform), ("transform_each", transform_each)):
            if given is not None and not callable(given):
                raise SpecError(f"{name_of} {given!r} is no function")
        if head is not None and not isinstance(head, str):
            raise SpecError(f"head {head!r} is not the name of a layer")
        if size is not None and (type(size) is not int or not 1 <= size <= LARGEST_SIDE):
            raise SpecError(f"size {size!r} is impossible: give the pixels of a side, 1 to {LARGEST_SIDE}")
        self._given: RunSpec = LearnerSpec(model=name, method=method, **options)
        self.spec = on_this_machine(self._given)
        self._made_by = None if isinstance(model, str) else model
        self._head, self._size, self._normalise = head, size, Normaliser(normalise)
        self._transform = transform or (None if transform_each is None else Each(transform_each))
        self._id = secrets.token_hex(8)
        self._form: Form | None = None
        self._labels: dict[Hashable, int] = {}
        self._mean: Tensor | None = None
        self._std: Tensor | None = None
        self._loop: Loop | None = None
        self._past: list[Examples] = []  # all data there was, for a method that sees it
        self._history = History()
        self._pending: dict[str, Any] | None = None
        self._noted: Noted | None = None  # what its folder holds of the history
        self._folder: Path | None = None
        self._kept_events = 0
        self._unsaved = False

    @property
    def classes(self) -> list[Hashable]:
        """The labels it knows, in order of first appearance."""
        return list(self._labels)

    @property
    def model(self) -> nn.Module:
        """The plain nn.Module: from normalised examples to logits."""
        return self._ready().model

    @property
    def history(self) -> list[Instalment]:
        """One entry for each `learn`: what was learned, and when."""
        return [Instalment.of(entry, self.classes) for entry in self._history.instalments]

    def settings(self) -> dict[str, Any]:
        """The settings it was made with."""
        return {"spec": self._given.identity(), "size": self._size}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._given.given().items())
        classes = counted(len(self._labels), "class", "classes")
        return f"Learner({fields}: {classes} in {counted(len(self._history.instalments), 'instalment')})"

    def _ready(self) -> Loop:
        if self._loop is None:
            raise SpecError("this learner has learned nothing yet: call learn(x, y) first")
        return self._loop

    def _memories(self) -> list[Buffer]:
        return [] if self._loop is None else [self._loop.learner.buffer, self._loop.learner.exam.kept]

    def _kept(self) -> dict[Hashable, int]:
        return dict(zip(self._labels, self._counted(self._memories()), strict=True))

    def _counted(self, memories: Sequence[Buffer]) -> list[int]:
        """How many of each class they hold."""
        kept = [memory.y[: len(memory)] for memory in memories]
        counts: list[int] = torch.bincount(torch.cat(kept), minlength=len(self._labels)).tolist()
        return counts

    def _made_from(self) -> str:
        return str(self.spec.model) if self._made_by is None else source_of(self._made_by)

    # The network

    def _network(self, spec: RunSpec, made_by: Made | None, some: Tensor | None = None) -> nn.Module:
        """The network as it begins, with an output for each label there is; `some` examples find its head."""
        assert self._form is not None
        form, classes, device = self._form, len(self._labels), torch.device(spec.device)
        views = self._views(spec)
        # What a user's function raises is hers, with its place; a model of ours says it in a line.
        with taking(form) if made_by is None else contextlib.nullcontext():
            model = make_model(made_by, spec, form.shape, classes)
        with taking(form):
            model = channels_last(model).to(device)
        if some is not None:
            with taking(form):
                if self._head is None:
                    self._head = trace_head(model, some, views.normalised)
                else:
                    predict(model, some, views.normalised)
        if self._head is not None:
            layer = named_head(model, self._head)
            if layer.out_features != classes:  # somebody else's classes
                resized(layer, classes, lambda row: derived_seed(spec.seed, f"init/class/{row}"))
        if some is not None:
            require_scores(model, views.normalised(some), classes, self._head)
        return model

    def _around(self, spec: RunSpec, model: nn.Module) -> Loop:
        """A loop for this network. Its optimizer has the parameters that are trained now."""
        assert self._form is not None
        form, views = self._form, self._views(spec)
        folder = None if self._folder is None else self._folder / BUFFER
        return Loop(
            spec,
            model,
            views,
            form.shape,
            len(self._labels),
            Events(),
            dtype=form.dtype,
            head=self._head,
            folder=folder,
        )

    def _views(self, spec: RunSpec) -> Views:
        return Views(self._mean, self._std, spec.device, self._transform)

    # The state

    def state_dict(self) -> dict[str, Any]:
        """All state that changes."""
        loop = self._loop
        built = None
        if loop is not None and self._form is not None:
            built = {"shape": list(self._form.shape), "dtype": str(self._form.dtype).removeprefix("torch.")}
        pending = self._pending
        return {
            "built": built,
            "labels": [encoded(label) if _can_be_kept(label) else label for label in self._labels],
            "mean": self._mean,
            "std": self._std,
            "head": self._head,
            "modes": {} if loop is None else {n: m.training for n, m in loop.model.named_modules()},
            "frozen": None if loop is None else [n for n, p in loop.model.named_parameters() if not p.requires_grad],
            "loop": None if loop is None else loop.state_dict(),
            "past": [{"x": part.x, "y": part.y} for part in self._past],
            **self._history.state_dict(),
            "pending": None if pending is None or loop is None else pending | {"epoch": loop.epoch},
        }

    def _load_state(self, state: Mapping[str, Any]) -> None:
        labels = [decoded(label) if isinstance(label, dict) else label for label in list(state["labels"])]
        self._labels = {label: i for i, label in enumerate(labels)}
        if len(self._labels) != len(labels):
            raise ValueError("two classes of one name")
        self._mean, self._std, self._head = state["mean"], state["std"], state["head"]
        self._past = [Examples(part["x"], part["y"]) for part in state["past"]]
        self._history = History.from_dict(state, len(labels))
        self._pending = None if state["pending"] is None else dict(state["pending"])
        if state["built"] is None:
            self._loop, self._form = None, None
            return
        dtype = getattr(torch, state["built"]["dtype"])
        shape = tuple(state["built"]["shape"])
        self._form = Form(shape, dtype)
        self._require_sizes(state["loop"])
        # Where there is a network it is this very module, which a user may hold.
        model = self._network(self.spec, self._made_by if self._loop is None else self._loop.model)
        self._set_modes(model, state)
        loop, kept = self._around(self.spec, model), dict(state["loop"])
        self._loop = loop
        if kept["progress"] is None:  # of a run, which kept its network and its buffer, but no optimizer
            fresh = loop.state_dict()
            kept |= {name: fresh[name] for name in ("optimizer", "generators")}
            kept["progress"] = fresh["progress"] | {
                "task_number": kept["tasks"] + 1,
                "epochs_per_task": [1] * kept["tasks"],
            }
        loop.load_state_dict(kept)

    def _set_modes(self, model: nn.Module, state: Mapping[str, Any]) -> None:
        for name, module in model.named_modules():
            module.training = bool(state["modes"].get(name, module.training))
        if state["frozen"] is not None:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name not in state["frozen"])

    def _require_sizes(self, kept: Mapping[str, Any]) -> None:
        """Before anything is made as large as a file claims: what the file holds must be as large."""
        assert self._form is not None
        buffer, shape = kept["buffer"], self._form.shape
        exam = exam_capacity(self.spec)
        capacity = (self.spec.get("buffer_capacity") or 0) - exam
        if not shape or any(type(size) is not int or size < 1 for size in shape):
            raise ValueError(f"examples of shape {shape}")
        memories = [(buffer, capacity, "buffer"), *([(kept["exam"]["kept"], exam, "exam")] if exam else [])]
        for memory, size, what in memories:
            version: Version | None = memory.get("disk")
            there = tuple(memory["x"].shape) if version is None else (len(version.rows), *version.shape)
            if there != (size, *shape):
                raise ValueError(f"its {what} has another size than its spec says")
            y = memory["y"] if version is None else version.tensors["y"]
            if len(y) and int(y.max()) >= len(self._labels):
                raise ValueError("its buffer has a class that has no name")
        for numbers in (self._mean, self._std):
            if numbers is not None and tuple(numbers.shape) != (1, shape[0], *(1 for _ in shape[1:])):
                raise ValueError("its normalisation is of other examples")
        if (self._mean is None) != (self._std is None):
            raise ValueError("its normalisation lacks something")
        if self._made_by is not None or self._loop is not None or not MODELS.ships(self.spec.model):
            return
        with torch.device("meta"), contextlib.suppress(NotImplementedError):
            claimed = MODELS.get(self.spec.model)(
                self._form.shape, len(self._labels), **self.spec.options_of(MODELS, self.spec.model)
            )
            shapes = {name: tuple(tensor.shape) for name, tensor in claimed.state_dict().items()}
            if shapes != {name: tuple(tensor.shape) for name, tensor in kept["model"].items()}:
                raise ValueError("its weights are of another network than its spec says")


def _can_be_kept(label: Hashable) -> bool:
    try:
        encoded(label)
    except OutputError:
        return False
    return True
