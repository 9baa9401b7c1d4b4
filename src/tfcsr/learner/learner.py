"""A network people keep: it learns new data as it arrives, predicts, reports its recall, and can be saved."""

import contextlib
import copy
import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tfcsr import processes
from tfcsr.buffer.disk import FOLDER as BUFFER
from tfcsr.data.arriving import Arrival, read
from tfcsr.data.tasks import Examples, Task
from tfcsr.errors import DataError, OutOfMemoryError, OutputError, SpecError, counted
from tfcsr.experiments.machine import settings
from tfcsr.experiments.saving import Saving
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.files import locked
from tfcsr.learner.asking import Asking, some_labels
from tfcsr.learner.folder import without_history
from tfcsr.learner.instalments import all_together, make_task, some_of
from tfcsr.learner.keeping import Keeping
from tfcsr.learner.network import normalises_batches
from tfcsr.learner.records import Instalment, is_pending, now
from tfcsr.models.head import named_head, resized, trace_head
from tfcsr.reporting.progress import LearnDisplay
from tfcsr.spec import RunSpec
from tfcsr.training.events import JsonLines, Listener
from tfcsr.training.loop import Loop
from tfcsr.training.model_file import encoded
from tfcsr.training.staging import rows_in_block


class Learner(Asking, Keeping):
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

    def has_just_learned(self, x: Any, y: Any = None, *, skip_unreadable: bool = False) -> bool:
        """Whether the last `learn` had exactly these examples."""
        if not self._history.instalments:
            return False
        with processes.here().in_turn():
            arrival = read(x, y, form=self._form, size=self._size, skip_unreadable=skip_unreadable)
        return bool(self._history.instalments[-1]["data"] == arrival.fingerprint())

    def forget(self, label: Hashable) -> int:
        """Remove the examples of a class from the memory, and return how many there were. The network itself does not
        change: it forgets the class by itself, as it learns others.
        """
        loop = self._ready()
        if not isinstance(label, Hashable) or label not in self._labels:
            raise SpecError(f"label {label!r} was never learned: the classes are {some_labels(self.classes)}")
        if self.is_learning and not self._unsaved:
            raise OutputError(
                f"{self._folder} holds a learn that was not finished, which still has these examples: finish it, or"
                " start it over with resume=False, and forget them then"
            )
        number = self._labels[label]
        past = sum(int((part.y == number).sum()) for part in self._past)
        self._past = [some_of(part, np.flatnonzero(part.y.numpy() != number)) for part in self._past]
        return past + loop.learner.buffer.remove(number) + loop.learner.exam.kept.remove(number)

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


def _on_terminal(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


def _obey(stop: Stop) -> None:
    if stop.number is not None:
        raise Interrupted(stop.number, "stopped; the learner is as it was before")
