"""A network people keep: it learns new data as it arrives, predicts, reports its recall, and can be saved."""

import contextlib
import copy
import secrets
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

import tfcsr
from tfcsr import processes
from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.disk import FOLDER as BUFFER
from tfcsr.buffer.disk import Version, remove_unused
from tfcsr.data.arriving import Arrival, Form, read, read_unlabelled
from tfcsr.data.folders import read_images
from tfcsr.data.tasks import Examples, Task
from tfcsr.data.views import Views
from tfcsr.errors import DataError, OutOfMemoryError, OutputError, SpecError, counted
from tfcsr.experiments.history import FOLDER, HISTORY, NOTED, Noted, unfinished
from tfcsr.experiments.machine import on_this_machine, settings
from tfcsr.experiments.saving import Saving
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.files import LOCK, PART, locked, require_folder, write_json, writing
from tfcsr.generators import derived_seed
from tfcsr.learner.folder import (
    FORMAT,
    read_about,
    require_given,
    source_of,
    spec_of_run,
    state_of_run,
    warn,
    with_history,
    without_history,
)
from tfcsr.learner.instalments import all_together, make_task, some_of
from tfcsr.learner.network import (
    Each,
    Made,
    Normalisation,
    Normaliser,
    Transform,
    code_of,
    make_model,
    normalises_batches,
    require_scores,
    taking,
)
from tfcsr.learner.records import Evaluation, History, Instalment, Recalled, best_of, by_label, is_pending, now
from tfcsr.methods.base import exam_capacity
from tfcsr.models import MODELS
from tfcsr.models.export import Normalised, export, require_format
from tfcsr.models.head import named_head, resized, trace_head
from tfcsr.models.predict import predict
from tfcsr.recall.probe import Recall
from tfcsr.reporting.progress import LearnDisplay
from tfcsr.spec import OWN, LearnerSpec, RunSpec
from tfcsr.training.checkpoint import NONSENSE, Checkpoints
from tfcsr.training.events import Events, JsonLines, Listener
from tfcsr.training.loop import Loop, channels_last
from tfcsr.training.model_file import NAME as MODEL_FILE
from tfcsr.training.model_file import decoded, encoded, read_model, write_model
from tfcsr.training.staging import rows_in_block

LARGEST_SIDE = 10_000

Model = str | nn.Module | Callable[..., nn.Module]


class Learner:
    """A network that learns new data as it arrives and keeps what it has learned.

        learner = Learner(model="resnet18", buffer_capacity=2000, seed=0)
        learner.learn(x, y, epochs=20)
        learner.learn("week2/")
        learner.predict(x)

    `model` is a name (`tfcsr list models`), an nn.Module, or a function from an example's shape and the number of
    classes to an nn.Module. `head` names its last linear layer, if that cannot be found. `normalise` is "auto" (learned
    from the first data), "none", or mean and std: for uint8 examples in units of 0..1, otherwise in their own units.
    `transform` gets the stored examples of each training batch; `transform_each` gets one example. Images from folders
    are resized to `size`. All other arguments are the fields and options of `tfcsr learn --help`.
    """

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

    # What it is

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

    @property
    def is_learning(self) -> bool:
        """Whether its folder holds an unfinished `learn`."""
        return self._folder is not None and self._learning(self._folder).newest() > 0

    def has_just_learned(self, x: Any, y: Any = None, *, skip_unreadable: bool = False) -> bool:
        """Whether the last `learn` had exactly these examples."""
        if not self._history.instalments:
            return False
        with processes.here().in_turn():
            arrival = read(x, y, form=self._form, size=self._size, skip_unreadable=skip_unreadable)
        return bool(self._history.instalments[-1]["data"] == arrival.fingerprint())

    def settings(self) -> dict[str, Any]:
        """The settings it was made with."""
        return {"spec": self._given.identity(), "size": self._size}

    def checked(self, x: Any) -> Tensor:
        """Examples in the form this network takes; an error if they do not fit."""
        self._ready()
        assert self._form is not None
        return read_unlabelled(x, self._form).x

    def read_images(self, paths: Sequence[str | Path]) -> np.ndarray:
        """Image files in the form this network takes."""
        self._ready()
        assert self._form is not None
        if not self._form.is_image:
            raise DataError(f"this network was not taught with images: it takes {self._form}")
        channels, height, width = self._form.shape
        found: np.ndarray = read_images(paths, (height, width), channels)
        return found

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._given.given().items())
        classes = counted(len(self._labels), "class", "classes")
        return f"Learner({fields}: {classes} in {counted(len(self._history.instalments), 'instalment')})"

    def _memories(self) -> list[Buffer]:
        return [] if self._loop is None else [self._loop.learner.buffer, self._loop.learner.exam.kept]

    def _ready(self) -> Loop:
        if self._loop is None:
            raise SpecError("this learner has learned nothing yet: call learn(x, y) first")
        return self._loop

    # Learning

    def learn(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int | None = None,
        resume: bool | None = None,
        skip_unreadable: bool = False,
        progress: bool | None = None,
        listeners: Iterable[Listener] = (),
        folder: str | Path | None = None,
        stop: Stop | None = None,
        command: str = "`learn(..., resume=True)`",
    ) -> Instalment:
        """Learn these examples: arrays or tensors with labels, a torch Dataset, an image folder or an .npz file. Their
        classes may be new, known, or both.

        Checkpoints go into the folder the learner was saved to or loaded from; if there is none, into `folder`. A call
        that was killed resumes with `resume=True` and the same data. If a call fails, the learner stays as it was
        before. `listeners` are callbacks: each gets the loop's events. `stop` and `command` let a caller stop it early.
        """
        spec = self.spec if epochs is None else self.spec.replace(epochs=epochs)
        if self._loop is not None:
            self._loop.require_same_parameters()
        here = processes.here()
        with LearnDisplay(shown=_on_terminal(progress) and here.leads) as display:
            with here.in_turn():
                arrival = read(
                    x,
                    y,
                    form=self._form,
                    size=self._size,
                    skip_unreadable=skip_unreadable,
                    progress=display.packing,
                )
            before, events = self._snapshot(), self._kept_events
            raw = self._raw_module()
            try:
                with self._claimed():
                    how = _How(resume, [display, *listeners], stop or Stop(), command, before)
                    how.folder = None if folder is None or self._folder is not None else Path(folder)
                    how.epochs = epochs
                    return self._learn(arrival, spec, how)
            except BaseException as error:
                self._go_back(before, raw)
                self._kept_events = events
                if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
                    raise OutOfMemoryError(
                        f"out of memory on {self.spec.device} ({str(error).partition(chr(10))[0]}): a smaller"
                        " buffer_capacity or batch_size takes less"
                    ) from None
                raise

    def _learn(self, arrival: Arrival, spec: RunSpec, how: "_How") -> Instalment:
        known_as = arrival.fingerprint()
        if self._folder is not None or how.folder is not None:
            for label in arrival.labels:
                encoded(label)  # which cannot be kept otherwise
        if self._folder is not None:
            self._go_on(self._folder, how, known_as, spec)
        elif how.resume:
            raise SpecError("there is nothing to resume: this learner was neither saved nor loaded")
        with settings(spec):
            known = len(self._labels) if self._pending is None else self._pending["known"]
            if self._pending is None:
                self._prepare(arrival, spec)
            loop = self._ready()
            loop.use(spec)
            if how.epochs is not None and loop.method.epochs() != how.epochs:
                raise SpecError(f"method {spec.method} does not go by epochs: leave {how.epochs} out")
            loop.events.listeners = [self._history.note, *how.listeners]
            task = make_task(arrival, self._labels, spec, loop.task_number)
            data = all_together([*self._past, task.train]) if loop.method.sees_all_tasks else task.train
            self._make_room(loop, data)
            self._pending = {
                "number": len(self._history.instalments) + 1,
                "data": known_as,
                "source": arrival.source,
                "epochs": loop.method.epochs(),
                "known": known,
            }
            with contextlib.ExitStack() as stack:
                if how.folder is not None:  # only now, when nothing can be refused any more
                    self._begin_in(how.folder, how.before, stack)
                self._train(loop, task, data, how)
            self._keep_past(task)
            return self._done(loop, task, arrival, known_as, known)

    def _go_on(self, folder: Path, how: "_How", known_as: str, spec: RunSpec) -> None:
        """Take up the learn that was not finished in the folder, if there is one and it is wanted."""
        checkpoints = self._learning(folder)
        if self._unsaved or how.resume is False:
            checkpoints.clear()  # wanted no more; or of a learn that is done, and part of what goes on from here
        found = checkpoints.load()
        if found is None:
            return
        state = self._whole(found.state, folder, folder / "learning")
        pending: Any = state.get("pending")
        past = state.get("instalments")
        if not is_pending(pending) or not isinstance(past, list) or len(past) + 1 != pending["number"]:
            raise OutputError(f"{folder / 'learning'} is damaged: start over with resume=False")
        if how.resume is None:
            raise OutputError(
                f"{folder} holds a learn of {pending['source']} that was not finished and saved (epoch"
                f" {pending['epoch']} of {pending['epochs']}): give resume=True to go on with it, or resume=False to"
                " start over"
            )
        start_over = "or start over with resume=False"
        if pending["data"] != known_as:
            raise OutputError(
                f"{folder} holds a learn of other data ({pending['source']}): give that to go on with it, {start_over}"
            )
        epochs = self._asked_epochs(spec)
        if epochs is not None and pending["epochs"] != epochs:
            raise OutputError(
                f"{folder} holds a learn of {counted(pending['epochs'], 'epoch')}, not {epochs}: give that number to go"
                f" on with it, {start_over}"
            )
        evaluations = self._history.evaluations  # which may have been made since
        self._try_state(state, folder / "learning")
        self._history.evaluations = evaluations
        self._kept_events = found.events

    def _begin_in(self, folder: Path, before: dict[str, Any], stack: contextlib.ExitStack) -> None:
        """Keep the learner as it was before its first learn, to go on from should that be killed."""
        if processes.here().leads:
            self._make_folder(folder)
            stack.enter_context(locked(folder))
            self._write(folder, before, 0)
        self._folder = folder
        for memory in self._memories():
            memory.lie_in(folder / BUFFER)

    def _prepare(self, arrival: Arrival, spec: RunSpec) -> None:
        """Make the network for the first examples there are; let its head grow for classes that are new."""
        for label in arrival.labels:
            self._labels.setdefault(label, len(self._labels))
        if self._loop is not None:
            inner = self._loop.learner
            if self._head is None:  # of a run's network, which had no need to grow
                self._head = inner.head = trace_head(inner.model, arrival.x[:2], inner.views.normalised)
            self._loop.grow(len(self._labels))
            return
        self._form = arrival.form
        self._mean, self._std = self._normalise(arrival)
        self._loop = self._around(spec, self._network(spec, self._made_by, arrival.x[:2]))

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

    def _make_room(self, loop: Loop, data: Examples) -> None:
        rows = len(data)
        if data.apart:
            rows = max(rows_in_block(data.x[0]), loop.spec.batch_size + 1)
        loop.make_room(rows, loop.method.epochs() * len(data) / loop.spec.batch_size)
        if len(data) == 1 and not loop.learner.has_buffer and normalises_batches(loop.model):
            raise DataError("one example alone cannot train a network with batch normalisation: give two or more")

    def _train(self, loop: Loop, task: Task, data: Examples, how: "_How") -> None:
        with contextlib.ExitStack() as stack:
            if loop.spec.device != "cpu":  # a recording needs a stream of its own
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream(loop.spec.device)))
            if self._folder is None:
                loop.events.listeners.append(lambda event: _obey(how.stop))
                for _ in loop.learn(task, data):
                    pass
                return
            synced: Callable[[], int] = lambda: 0  # noqa: E731 - where another process keeps the history
            if processes.here().leads:
                events = stack.enter_context(
                    contextlib.closing(JsonLines(self._folder / "events.jsonl", self._kept_events))
                )
                loop.events.listeners.insert(0, events)
                synced = events.synced
            checkpoints = self._learning(self._folder)
            noted = self._still_noted(self._folder)

            def state() -> dict[str, Any]:
                return self.state_dict() if noted is None else without_history(self.state_dict(), noted)

            saving = Saving(loop, checkpoints, state, synced, how.stop, how.command)
            stack.enter_context(saving)
            for _ in loop.learn(task, data, saving.between_epochs):
                pass
            self._kept_events = synced()

    def _keep_past(self, task: Task) -> None:
        if self._ready().method.sees_all_tasks:
            self._past.append(Examples(task.train.x.cpu().clone(), task.train.y.cpu()))

    def _done(self, loop: Loop, task: Task, arrival: Arrival, known_as: str, known: int) -> Instalment:
        recall = self._ask()
        counts = torch.bincount(task.train.y.cpu(), minlength=len(self._labels)).tolist()
        past = self._history.instalments
        before = past[-1]["optimizer_steps"] if past else 0
        spent = sum(entry["seconds"] for entry in past)
        entry = {
            "number": task.number,
            "when": now(),
            "source": arrival.source,
            "data": known_as,
            "examples": len(task.train),
            "per_class": {str(i): n for i, n in enumerate(counts) if n},
            "new": [i for i in task.classes if i >= known],
            "again": [i for i in task.classes if i < known],
            "epochs": loop.epoch,
            "steps": loop.optimizer_steps - before,
            "optimizer_steps": loop.optimizer_steps,
            "seconds": loop.seconds - spent,
            "overall": None if recall is None else recall.overall,
            "recall": {} if recall is None else {str(i): value for i, value in recall.per_class.items()},
        }
        past.append(entry)
        loop.next_task()
        loop.events.listeners = []
        self._unsaved = True
        self._pending = None
        return Instalment.of(entry, self.classes)

    def _asked_epochs(self, spec: RunSpec) -> int | None:
        """How many epochs a learn with this spec takes at most; not known before there is a network."""
        if self._loop is None:
            return int(spec.epochs) if spec.get("max_epochs") is None else None
        self._loop.use(spec)
        return self._loop.method.epochs()

    def _snapshot(self) -> dict[str, Any]:
        """A copy of everything that a learn changes. Past examples and what is noted are only ever added to, and stand
        in lists of the state's own: to copy them too would take longer with every instalment.
        """
        state = self.state_dict()
        added_to = [state["past"], *(state[name] for name in vars(self._history))]
        if state["loop"] is not None:
            added_to.append(state["loop"]["probes"])
        return copy.deepcopy(state, {id(entries): entries for entries in added_to})

    def _raw_module(self) -> dict[str, Any] | None:
        """A module that was given, as it is before its first learn changes its head."""
        if self._loop is not None or not isinstance(self._made_by, nn.Module):
            return None
        modes = {name: module.training for name, module in self._made_by.named_modules()}
        return {"weights": copy.deepcopy(self._made_by.state_dict()), "modes": modes, "frozen": None}

    def _go_back(self, before: dict[str, Any], raw: dict[str, Any] | None) -> None:
        """As it was before a learn that failed."""
        if raw is not None and isinstance(self._made_by, nn.Module):
            weight = f"{self._head}.weight" if self._head else "weight"
            now = self._made_by.state_dict()
            if self._head is not None and weight in now and now[weight].shape != raw["weights"][weight].shape:
                resized(named_head(self._made_by, self._head), len(raw["weights"][weight]), lambda row: row)
            self._made_by.load_state_dict(raw["weights"])
            self._set_modes(self._made_by, raw)
        self._load_state(before)

    # Asking

    def predict(self, x: Any, among: Iterable[Hashable] | None = None) -> np.ndarray:
        """The predicted label of each example, as the user gave it. With `among`, one of these labels: for whoever
        knows which of them can be meant, such as those of one task.
        """
        return self._named(self._asked(x, among, lambda scores: scores.argmax(dim=1)))

    def predict_proba(self, x: Any, among: Iterable[Hashable] | None = None) -> np.ndarray:
        """Class probabilities, one row per example, with columns in the order of `classes`. With `among`, all other
        labels have probability 0.
        """
        found: np.ndarray = self._asked(x, among, lambda scores: scores.float().softmax(dim=1)).cpu().numpy()
        return found

    def _asked(self, x: Any, among: Iterable[Hashable] | None, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """What `answer` makes of the scores, of which only those of some labels count, if given."""
        loop = self._ready()
        assert self._form is not None
        meant = None if among is None else self._numbers(among)

        def of(scores: Tensor) -> Tensor:
            if meant is None:
                return answer(scores)
            others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
            others[meant] = False
            return answer(scores.masked_fill(others, -torch.inf))

        return self._answers(loop, read_unlabelled(x, self._form), of)

    def _numbers(self, labels: Iterable[Hashable]) -> list[int]:
        known = {label: number for number, label in enumerate(self.classes)}
        asked = list(labels)
        if not asked or (missing := [label for label in asked if label not in known]):
            what = f"among has {missing[0]!r}, which was never learned" if asked else "among has no label"
            raise SpecError(f"{what}: the classes are {_some(self.classes)}")
        return [known[label] for label in asked]

    def _answers(self, loop: Loop, arrival: Arrival, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """What `answer` makes of the method's scores, some examples at a time: neither the examples nor the scores of
        all of them need fit the memory.
        """
        found = []
        rows = min(rows_in_block(arrival.x[0]), loop.learner.rows_at_once)
        with settings(self.spec):
            for start in range(0, len(arrival.x), rows):
                found.append(answer(loop.method.predict(arrival.x[start : start + rows])))
                if arrival.mapped is not None:
                    arrival.mapped.release()
        return torch.cat(found)

    def _named(self, chosen: Tensor) -> np.ndarray:
        names = self.classes
        kinds = {type(name) for name in names}
        if len(kinds) == 1 and kinds <= {int, str, float, bool}:
            found: np.ndarray = np.array(names)[chosen.cpu().numpy()]
            return found
        mixed = np.empty(len(chosen), object)
        for i, place in enumerate(chosen.tolist()):
            mixed[i] = names[place]
        return mixed

    def evaluate(self, x: Any, y: Any = None) -> Evaluation:
        """Accuracy on labelled examples, overall and per class, with the best so far. A label that was never learned
        counts as wrong. The learner keeps the result.
        """
        loop = self._ready()
        arrival = read(x, y, form=self._form, size=self._size)
        chosen = self._answers(loop, arrival, lambda scores: scores.argmax(dim=1)).cpu().numpy()
        truth = np.array([self._labels.get(label, -1) for label in arrival.labels])[arrival.codes]
        right = chosen == truth
        per_class = {label: 100 * float(right[arrival.codes == i].mean()) for i, label in enumerate(arrival.labels)}
        entry = {
            "when": now(),
            "after": len(self._history.instalments),
            "examples": len(right),
            "accuracy": 100 * float(right.mean()),
            "per_class": {str(self._labels[label]): v for label, v in per_class.items() if label in self._labels},
        }
        self._history.evaluations.append(entry)
        best = by_label(best_of(self._history.evaluations, "per_class"), self.classes)
        return Evaluation(
            accuracy=entry["accuracy"],  # type: ignore[arg-type]
            per_class=per_class,
            best={label: max(value, best.get(label, 0.0)) for label, value in per_class.items()},
            best_accuracy=max(one["accuracy"] for one in self._history.evaluations),
            examples=len(right),
        )

    def recall(self) -> Recalled:
        """Probe the memory now, or its exam if there is one: recall overall and per class. The result also has every
        earlier probe.
        """
        with settings(self.spec):
            recall = self._ask()
        if recall is None:
            raise SpecError(
                f"method {self.spec.method} keeps no examples to ask about: evaluate(x, y) says what is known"
            )
        names = self.classes
        per_class = by_label(recall.per_class, names)
        best = by_label(best_of(self._history.instalments, "recall"), names)
        return Recalled(
            overall=recall.overall,
            per_class=per_class,
            kept=self._kept(),
            best={label: max(value, best.get(label, 0.0)) for label, value in per_class.items()},
            history=[entry | {"per_class": by_label(entry["per_class"], names)} for entry in self._history.probes],
            questions=by_label(recall.asked, names),
            exam=len(self._ready().learner.exam) > 0,
        )

    def _ask(self) -> Recall | None:
        """The recall of the memory. It draws from a generator of its own and leaves no trace."""
        learner = self._ready().learner
        if len(learner.asked) == 0:
            return None
        return learner.ask(f"recall/{len(self._history.instalments)}")

    def _kept(self) -> dict[Hashable, int]:
        return dict(zip(self._labels, self._counted(self._memories()), strict=True))

    def _counted(self, memories: Sequence[Buffer]) -> list[int]:
        """How many of each class they hold."""
        kept = [memory.y[: len(memory)] for memory in memories]
        counts: list[int] = torch.bincount(torch.cat(kept), minlength=len(self._labels)).tolist()
        return counts

    def forget(self, label: Hashable) -> int:
        """Remove the examples of a class from the memory, and return how many there were. The network itself does not
        change: it forgets the class by itself, as it learns others.
        """
        loop = self._ready()
        if not isinstance(label, Hashable) or label not in self._labels:
            raise SpecError(f"label {label!r} was never learned: the classes are {_some(self.classes)}")
        if self.is_learning and not self._unsaved:
            raise OutputError(
                f"{self._folder} holds a learn that was not finished, which still has these examples: finish it, or"
                " start it over with resume=False, and forget them then"
            )
        number = self._labels[label]
        past = sum(int((part.y == number).sum()) for part in self._past)
        self._past = [some_of(part, np.flatnonzero(part.y.numpy() != number)) for part in self._past]
        return past + loop.learner.buffer.remove(number) + loop.learner.exam.kept.remove(number)

    def export(self, path: str | Path) -> Path:
        """Write a self-contained program, to a path that ends in `.pt2` (torch.export) or `.onnx`. It takes examples as
        `predict` does, returns a score for each class, and holds the class names.
        """
        loop = self._ready()
        assert self._form is not None
        path = Path(path)
        require_format(path)
        views, buffer = loop.learner.views, loop.learner.buffer
        with settings(self.spec):
            network = Normalised(loop.method.exported(), views.mean, views.std)
        # Some of the memory, where there is one: the program must answer as the network does.
        example = (
            buffer.examples(torch.arange(min(4, len(buffer))))
            if len(buffer)
            else torch.zeros((2, *self._form.shape), dtype=self._form.dtype)
        )
        export(network, example, [str(label) for label in self.classes], path)
        return path

    # Keeping

    def save(self, folder: str | Path) -> Path:
        """Save everything in a folder, for `load`. If this is killed, the folder keeps what was there before."""
        folder = Path(folder)
        if self._loop is not None:
            self._loop.require_same_parameters()
        if processes.here().leads:
            self._make_folder(folder)
            with locked(folder):
                events = folder / "events.jsonl"
                size = events.stat().st_size if events.exists() else 0
                self._write(folder, self.state_dict(), size)
                self._kept_events = size
        processes.here().barrier()
        self._unsaved = False
        self._folder = folder
        return folder

    def _make_folder(self, folder: Path) -> None:
        """The folder as one this learner may be kept in; or an error."""
        require_folder(folder)
        for label in self._labels:
            encoded(label)  # before anything is written
        if self._learns_in(folder) is not None:
            return
        ours = (LOCK, "checkpoint", FOLDER, BUFFER)  # the others of a first save that was killed
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            strange = [path.name for path in folder.iterdir() if path.name not in ours and path.suffix != PART]
        if strange:
            raise OutputError(f"{folder} is not empty and holds no learner ({strange[0]}): choose another folder")

    def _learns_in(self, folder: Path) -> str | None:
        """The learner that a folder holds, by its id; an error where it is another than this."""
        file = folder / "spec.json"
        if not file.exists():
            return None
        found = str(read_about(folder)["id"])
        if found != self._id:
            raise OutputError(f"{folder} holds another learner: choose another folder, or remove it")
        return found

    def _write(self, folder: Path, state: dict[str, Any], events: int) -> None:
        """The state is what counts: once it is there, all else can be made again from it."""
        checkpoints = self._checkpoints(folder)
        number = checkpoints.newest() + 1
        # What the checkpoint there refers to stays as it is, until there is another.
        noted = (self._still_noted(folder) or Noted(folder)).added(state, number)
        checkpoints.save(number, without_history(state, noted), events)
        self._noted = noted
        if not (folder / "spec.json").exists():
            write_json(folder / "spec.json", self._describe())
        if state["built"] is None:
            write_json(folder / HISTORY, History().state_dict())
        else:
            self._write_for_others(folder, noted)
        self._learning(folder).clear()
        noted.remove_others()
        remove_unused(folder)

    def _still_noted(self, folder: Path) -> Noted | None:
        """What the folder holds of this history, if that is known: somebody else may have saved there since."""
        noted = self._noted
        if noted is None or noted.folder != folder or not noted.holds(self._checkpoints(folder).newest()):
            return None
        return noted

    def _write_for_others(self, folder: Path, noted: Noted | None) -> None:
        write_model(folder / MODEL_FILE, self._ready(), self._given.to_dict(), self.classes, beside=False)
        # An earlier version kept the history in its checkpoint.
        history = self._history.state_dict() if noted is None else {NOTED: noted.reference()}
        write_json(folder / HISTORY, self._document() | history)

    def _document(self) -> dict[str, Any]:
        """What the report shows."""
        loop = self._loop
        kept = [] if loop is None else list(self._kept().values())
        past = self._history
        last = past.instalments[-1] if past.instalments else {"recall": {}, "overall": None}
        return {
            "method": self.spec.method,
            "model": self._made_from(),
            "version": tfcsr.__version__,
            "made": now(),
            "classes": [str(label) for label in self._labels],
            "capacity": 0 if loop is None else loop.learner.buffer.capacity + loop.learner.exam.capacity,
            "kept": kept,
            "exam": [] if loop is None or not len(loop.learner.exam) else self._counted([loop.learner.exam.kept]),
            "recall_now": [last["recall"].get(str(i)) if n else None for i, n in enumerate(kept)],
            "recall_overall": last["overall"],
        }

    def _made_from(self) -> str:
        return str(self.spec.model) if self._made_by is None else source_of(self._made_by)

    def _describe(self) -> dict[str, Any]:
        return {
            "learner": FORMAT,
            "id": self._id,
            "tfcsr": tfcsr.__version__,
            "spec": self._given.to_dict(),
            "model": "" if self._made_by is None else source_of(self._made_by),
            "transform": code_of(self._transform),
            "normalise": self._normalise.to_json(),
            "size": self._size,
            "head": self._head,
        }

    def _learning(self, folder: Path) -> Checkpoints:
        """Where the progress of a learn is kept until it is done and saved."""
        return Checkpoints(folder / "learning", self._id, self.spec.device)

    def _checkpoints(self, folder: Path) -> Checkpoints:
        return Checkpoints(folder / "checkpoint", self._id, self.spec.device, kept=1)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        model: nn.Module | Callable[..., nn.Module] | None = None,
        transform: Transform | None = None,
        transform_each: Transform | None = None,
        device: str | None = None,
    ) -> Self:
        """Load the learner that a folder holds, or the network that a run has kept. A model or a transform that was
        given as an object must be given again: a folder holds no code.
        """
        folder = Path(folder)
        if (folder / MODEL_FILE).exists() and (folder / "result.json").exists():
            return cls._from_run(folder, model, device)
        about = read_about(folder)
        require_given(folder, "model", bool(about["model"]), model is not None, about["model"])
        given = transform or transform_each
        require_given(folder, "transform", bool(about["transform"]), given is not None, "a function")
        learner = cls._made(
            about["spec"], folder, model, about["head"], about["size"], transform, transform_each, device
        )
        learner._normalise = Normaliser.from_json(about["normalise"], folder)
        if code_of(learner._transform) != about["transform"]:
            warn(f"the transform of {folder} was another: what is learned from now on goes through this one")
        learner._id = str(about["id"])
        learner._folder = folder
        found = learner._checkpoints(folder).load()
        if found is None:
            raise OutputError(f"{folder} holds a learner without its state: its checkpoint is missing")
        learner._kept_events = found.events
        learner._try_state(learner._whole(found.state, folder, folder, found.number), folder)
        learner._finish_save(folder)
        return learner

    def _finish_save(self, folder: Path) -> None:
        """A save that was killed when the state was written: the learn it ends is done, and the rest is made up for."""
        under_way = unfinished(folder / "learning")
        if under_way is None or under_way["number"] > len(self._history.instalments) or not processes.here().leads:
            return
        with contextlib.suppress(OutputError), locked(folder):  # who cannot write there may still read
            self._write_for_others(folder, self._still_noted(folder))
            self._learning(folder).clear()

    @classmethod
    def _made(
        cls,
        values: Any,
        folder: Path,
        model: nn.Module | Callable[..., nn.Module] | None,
        head: str | None,
        size: int | None,
        transform: Transform | None,
        transform_each: Transform | None,
        device: str | None,
    ) -> Self:
        try:
            if not isinstance(values, dict):
                raise SpecError("it holds no spec")
            spec = LearnerSpec.read(values | ({} if device is None else {"device": device}))
            if "pretrained" in spec.options():  # the weights are here: nothing is fetched for a folder's sake
                spec = spec.replace(pretrained=False)
        except SpecError as error:
            raise OutputError(f"{folder / 'spec.json'} cannot be used: {error}") from None
        learner = cls(head=head, size=size, transform=transform, transform_each=transform_each)
        learner._given, learner.spec = spec, on_this_machine(spec)
        learner._made_by = model if spec.model == OWN else None
        return learner

    def _whole(self, state: dict[str, Any], folder: Path, place: Path, number: int | None = None) -> dict[str, Any]:
        """A state that was read from a place in the folder, with the history it refers to. That of the checkpoint with
        this number is what a save adds to.
        """
        try:
            noted, state = with_history(state, folder, number or 0)
        except NONSENSE as error:
            raise _unusable(place, error) from None
        if number is not None:
            self._noted = noted
        return state

    def _try_state(self, state: dict[str, Any], folder: Path) -> None:
        """The same from a file, which may hold anything."""
        try:
            if not isinstance(state["labels"], list):
                raise ValueError("labels that are none")
            for label in state["labels"]:
                decoded(label)
            self._load_state(state)
        except torch.OutOfMemoryError:
            raise
        except NONSENSE as error:
            raise _unusable(folder, error) from None

    @classmethod
    def _from_run(cls, folder: Path, model: nn.Module | Callable[..., nn.Module] | None, device: str | None) -> Self:
        """The network a run has kept: it predicts, and learns on with a fresh optimizer."""
        kept = read_model(folder / MODEL_FILE)
        learner = cls._made(spec_of_run(kept), folder, model, kept.head, None, None, None, device)
        learner._try_state(state_of_run(kept), folder)
        return learner

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

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """The folder to ourselves, while its learn goes on."""
        if self._folder is None:
            yield
            return
        folder, here = self._folder, processes.here()
        claim = contextlib.ExitStack()
        claimed = 1
        try:
            if here.leads:
                claim.enter_context(locked(folder))
        except OutputError as error:
            if (folder / LOCK).exists() or folder.exists() is False:
                raise
            warn(f"{error}: this learn is not saved while it goes on")
            claimed = 0
        if not here.told(claimed):
            self._folder = None
            for memory in self._memories():
                memory.leave()
            try:
                yield
            finally:
                self._folder = folder
            return
        with claim:
            yield


@dataclass
class _How:
    """How one call of `learn` goes about it."""

    resume: bool | None
    listeners: list[Listener]
    stop: Stop
    command: str
    before: dict[str, Any]
    folder: Path | None = None
    epochs: int | None = None


def _unusable(folder: Path, error: Exception) -> OutputError:
    problem = str(error).partition("\n")[0]
    return OutputError(f"{folder} does not hold a learner that can be used ({problem})")


def _on_terminal(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


def _obey(stop: Stop) -> None:
    if stop.number is not None:
        raise Interrupted(stop.number, "stopped; the learner is as it was before")


def _some(labels: Sequence[Hashable]) -> str:
    more = f" and {len(labels) - 10} more" if len(labels) > 10 else ""
    return ", ".join(map(str, labels[:10])) + more


def _can_be_kept(label: Hashable) -> bool:
    try:
        encoded(label)
    except OutputError:
        return False
    return True
