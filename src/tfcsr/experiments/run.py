"""One spec, executed; or what is left of it, where it was stopped before."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing

import torch

from tfcsr import processes
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
from tfcsr.training.model_file import write_model


def run(spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Result:
    """`tfcsr.run`, which says what the arguments are, without its progress bar."""
    spec = on_this_machine(spec)
    with settings(spec):
        return finish(spec, advance(spec, listeners, stop))


def advance(
    spec: RunSpec,
    listeners: Iterable[Listener] = (),
    stop: Stop | None = None,
    *,
    at: str | None = None,
    dataset: Dataset | None = None,
) -> Turns:
    """The same in turns, for a spec that fits this machine: yields while the device works, so that others may go on.

    The folder `at` takes the place of `spec.out`, which is another machine's then, and `dataset` that of its data.
    """
    stop, here = stop or Stop(), processes.here()
    try:
        if spec.out is None:
            with here.in_turn():
                dataset = dataset or load(spec)
            training = Training(spec, dataset, listeners)
            training.events.listeners.append(lambda event: obey(stop, "nothing was kept: there was no --out"))
            yield from training.advance()
            return Result.of(training, environment(spec), origin(spec, of_dataset(dataset)))
        folder = RunFolder(at or spec.out)
        if here.leads:
            require_folder(folder.path)
        with here.in_turn():
            dataset = dataset or load(spec)
        now = origin(spec, of_dataset(dataset))
        if not here.leads:  # the folder is process 0's: the others are told what is in it
            said = json.loads(here.message())
            if said is not None:
                return Result.from_dict(said)
            return (yield from _run_in(folder, spec, dataset, now, listeners, stop))
        if (complete := _completed(folder, spec, now)) is not None:
            return complete
        with folder.claimed():
            # Somebody else may have been at it until now.
            if (complete := _completed(folder, spec, now)) is not None:
                return complete
            here.message(b"null")
            return (yield from _run_in(folder, spec, dataset, now, listeners, stop))
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch has no class of its own for it, only these words.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise OutOfMemoryError(
            f"out of memory on {spec.device} ({str(error).partition(chr(10))[0]}): a smaller buffer_capacity or"
            " batch_size takes less"
        ) from None


def _completed(folder: RunFolder, spec: RunSpec, now: Origin) -> Result | None:
    complete = folder.completed(spec, now)
    if complete is not None:
        processes.here().message(json.dumps(complete.to_dict()).encode())
    return complete


def _run_in(
    folder: RunFolder, spec: RunSpec, dataset: Dataset, now: Origin, listeners: Iterable[Listener], stop: Stop
) -> Turns:
    # Nothing is written before all that can be refused has been.
    training = Training(spec, dataset, listeners, folder.buffer_folder)
    checkpoints = Checkpoints(folder.checkpoint_folder, spec.key(), spec.device)
    known = _restore(training, checkpoints)
    with ExitStack() as stack:
        synced: Callable[[], int] = lambda: 0  # noqa: E731 - where another process keeps the history
        if processes.here().leads:
            folder.create(spec, now)
            events = stack.enter_context(closing(JsonLines(folder.events_file, known)))
            training.events.listeners.insert(0, events)
            synced = events.synced
        yield from _train(training, checkpoints, synced, stop)
    result = Result.of(training, environment(spec), now)
    if not processes.here().leads:
        return result
    if spec.keep_model:
        write_model(folder.model_file, training, spec.to_dict(), training.class_names, beside=True)
    write_json(folder.result_file, result.to_dict())
    checkpoints.clear()  # a complete run has no use for them
    if not spec.keep_model:
        shutil.rmtree(folder.buffer_folder, ignore_errors=True)
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


def _train(training: Training, checkpoints: Checkpoints, synced: Callable[[], int], stop: Stop) -> Iterator[None]:
    command = f"`{processes.here().command()} resume {training.spec.out}`"
    with Saving(training, checkpoints, training.state_dict, synced, stop, command) as saving:
        try:
            yield from training.advance(saving.between_epochs)
        except DivergedError as error:
            if checkpoints.last is None:
                raise
            path = checkpoints.manifest(checkpoints.last)
            raise DivergedError(
                f"{error}; the last good checkpoint, after {counted(checkpoints.last, 'epoch')}, is {path}"
            ) from None
