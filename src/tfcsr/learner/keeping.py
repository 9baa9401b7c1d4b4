"""How a learner is kept in a folder and comes back from it: to the bit, whenever it was killed."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

import tfcsr
from tfcsr import processes
from tfcsr.buffer.disk import FOLDER as BUFFER
from tfcsr.buffer.disk import remove_unused
from tfcsr.errors import OutputError, SpecError
from tfcsr.experiments.history import FOLDER, HISTORY, NOTED, Noted, unfinished
from tfcsr.experiments.machine import on_this_machine
from tfcsr.files import LOCK, PART, locked, require_folder, write_json, writing
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
from tfcsr.learner.network import Normaliser, Transform, code_of
from tfcsr.learner.records import History, now
from tfcsr.learner.state import State
from tfcsr.spec import OWN, LearnerSpec
from tfcsr.training.checkpoint import NONSENSE, Checkpoints
from tfcsr.training.model_file import NAME as MODEL_FILE
from tfcsr.training.model_file import decoded, encoded, read_model, write_model


class Keeping(State):
    """A folder that the learner can be taken up from again."""

    @property
    def is_learning(self) -> bool:
        """Whether its folder holds an unfinished `learn`."""
        return self._folder is not None and self._learning(self._folder).newest() > 0

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


def _unusable(folder: Path, error: Exception) -> OutputError:
    problem = str(error).partition("\n")[0]
    return OutputError(f"{folder} does not hold a learner that can be used ({problem})")
