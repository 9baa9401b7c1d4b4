"""One spec, executed; or what is left of it, where it was stopped before."""

from collections.abc import Iterable, Iterator
from contextlib import closing

import torch

from tfcsr.data.dataset import Dataset
from tfcsr.data.fingerprint import of_dataset
from tfcsr.errors import DivergedError, OutOfMemoryError, OutputError, counted
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.machine import environment, on_this_machine, settings
from tfcsr.experiments.origin import Origin, load, origin
from tfcsr.experiments.result import Result
from tfcsr.experiments.saving import Saving, obey
from tfcsr.experiments.stop import Stop
from tfcsr.experiments.together import Turns, finish
from tfcsr.experiments.training import Training
from tfcsr.files import require_folder, write_json
from tfcsr.spec import RunSpec
from tfcsr.training.checkpoint import NONSENSE, Checkpoints
from tfcsr.training.events import JsonLines, Listener
from tfcsr.training.model_file import NAME as MODEL_FILE
from tfcsr.training.model_file import write_model


def run(spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Result:
    """`tfcsr.run`, which says what the arguments are, without its progress bar."""
    spec = on_this_machine(spec)
    with settings(spec):
        return finish(spec, advance(spec, listeners, stop))


def advance(spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Turns:
    """The same in turns, for a spec that fits this machine: yields while the device works, so that others may go on."""
    stop = stop or Stop()
    try:
        if spec.out is None:
            dataset = load(spec)
            training = Training(spec, dataset, listeners)
            training.events.listeners.append(lambda event: obey(stop, "nothing was kept: there was no --out"))
            yield from training.advance()
            return Result.of(training, environment(spec), origin(spec, of_dataset(dataset)))
        folder = RunFolder(spec.out)
        require_folder(folder.path)
        dataset = load(spec)
        now = origin(spec, of_dataset(dataset))
        if (complete := folder.completed(spec, now)) is not None:
            return complete
        with folder.claimed():
            # Somebody else may have been at it until now.
            return folder.completed(spec, now) or (yield from _run_in(folder, spec, dataset, now, listeners, stop))
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch has no class of its own for it, only these words.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise OutOfMemoryError(
            f"out of memory on {spec.device} ({str(error).partition(chr(10))[0]}): a smaller buffer_capacity or"
            " batch_size takes less"
        ) from None


def _run_in(
    folder: RunFolder, spec: RunSpec, dataset: Dataset, now: Origin, listeners: Iterable[Listener], stop: Stop
) -> Turns:
    # Nothing is written before all that can be refused has been.
    training = Training(spec, dataset, listeners)
    checkpoints = Checkpoints(folder.checkpoint_folder, spec.key(), spec.device)
    known = _restore(training, checkpoints)
    folder.create(spec, now)
    with closing(JsonLines(folder.events_file, known)) as events:
        training.events.listeners.insert(0, events)
        yield from _train(training, checkpoints, events, stop)
    result = Result.of(training, environment(spec), now)
    if spec.keep_model:
        write_model(folder.path / MODEL_FILE, training, spec.to_dict(), training.class_names, beside=True)
    write_json(folder.result_file, result.to_dict())
    checkpoints.clear()  # a complete run has no use for them
    return result


def _restore(training: Training, checkpoints: Checkpoints) -> int:
    """Takes the training to its last checkpoint, and says how many bytes of events there were."""
    found = checkpoints.load()
    if found is None:
        return 0
    if found.damaged:
        training.events.emit("checkpoint_damaged", problem=found.damaged, epochs=found.number)
    try:
        training.load_state_dict(found.state)
    except torch.OutOfMemoryError:
        raise
    except NONSENSE as error:
        path = checkpoints.manifest(found.number)
        problem = str(error).partition("\n")[0]
        raise OutputError(
            f"{path} does not fit its run ({problem}): remove {checkpoints.folder} to start this run over"
        ) from None
    return found.events


def _train(training: Training, checkpoints: Checkpoints, events: JsonLines, stop: Stop) -> Iterator[None]:
    command = f"`tfcsr resume {training.spec.out}`"
    with Saving(training, checkpoints, training.state_dict, events.synced, stop, command) as saving:
        try:
            yield from training.advance(saving.between_epochs)
        except DivergedError as error:
            if checkpoints.last is None:
                raise
            path = checkpoints.manifest(checkpoints.last)
            raise DivergedError(
                f"{error}; the last good checkpoint, after {counted(checkpoints.last, 'epoch')}, is {path}"
            ) from None
