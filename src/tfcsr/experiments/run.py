"""One spec, executed; or what is left of it, where it was stopped before."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import torch

from tfcsr.data.dataset import Dataset
from tfcsr.data.fingerprint import of_dataset
from tfcsr.errors import DivergedError, OutOfMemoryError, OutputError
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.machine import environment, on_this_machine, settings
from tfcsr.experiments.origin import Origin, load, origin
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.experiments.together import Turns, finish
from tfcsr.files import require_folder, write_json
from tfcsr.spec import RunSpec
from tfcsr.training.checkpoint import NONSENSE, Checkpoints
from tfcsr.training.events import Event, JsonLines, Listener
from tfcsr.training.loop import Training

# Of the time of a run, for checkpoints.
LARGEST_SHARE = 0.02
# Runs that go on in this process: while one saves, those beside it wait.
_under_way: set[int] = set()


def run(spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Result:
    """Train and evaluate as the spec says; with `spec.out`, keep spec, events, checkpoints and result in that folder.

    A folder in which this very spec is already complete gives its result at once; one in which it was begun goes on
    from its last checkpoint, to the same result. `stop` is how to end it early.
    """
    spec = on_this_machine(spec)
    with settings(spec):
        return finish(spec, advance(spec, listeners, stop))


def resume(folder: str | Path, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Result:
    """Finish the run that was begun in this folder."""
    return run(RunFolder(folder).spec(), listeners, stop)


def advance(spec: RunSpec, listeners: Iterable[Listener] = (), stop: Stop | None = None) -> Turns:
    """The same in turns, for a spec that fits this machine: yields while the device works, so that others may go on."""
    stop = stop or Stop()
    try:
        if spec.out is None:
            dataset = load(spec)
            training = Training(spec, dataset, listeners)
            training.events.listeners.append(lambda event: _obey(stop, "nothing was kept: there was no --out"))
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
    spec = training.spec
    saved_at, cost = time.monotonic(), 0.0

    def how_to_go_on() -> str:
        where = f"after {_epochs(checkpoints.last)}" if checkpoints.last else "before its first checkpoint"
        return f"stopped {where}; `tfcsr resume {spec.out}` goes on"

    def after_step(event: Event) -> None:
        # Only where the last whole epoch is on disk; else this one is finished and saved first.
        if event["event"] == "step" and (checkpoints.last or 0) == training.epochs_trained - 1:
            _obey(stop, how_to_go_on())

    def between_epochs() -> None:
        nonlocal saved_at, cost
        number, now = training.epochs_trained, time.monotonic()
        if checkpoint_due(spec, number, now - saved_at, cost, len(_under_way)) or stop.number is not None:
            checkpoints.save(number, training.state_dict(), events.synced())
            saved_at, cost = time.monotonic(), time.monotonic() - now
        _obey(stop, how_to_go_on())

    training.events.listeners.append(after_step)
    _under_way.add(id(training))
    try:
        yield from training.advance(between_epochs)
    except DivergedError as error:
        if checkpoints.last is None:
            raise
        path = checkpoints.manifest(checkpoints.last)
        raise DivergedError(
            f"{error}; the last good checkpoint, after {_epochs(checkpoints.last)}, is {path}"
        ) from None
    finally:
        # It holds the training, which holds it: a thousand runs would wait for the garbage collector, weights and all.
        training.events.listeners.remove(after_step)
        _under_way.discard(id(training))


def checkpoint_due(spec: RunSpec, epochs: int, waited: float, cost: float, beside: int) -> bool:
    """Whether to save after so many epochs, so many seconds after the last checkpoint, which took `cost` seconds from
    each of the runs that go on beside each other.
    """
    if spec.checkpoint_seconds == 0 and spec.checkpoint_every > 0:
        return epochs % spec.checkpoint_every == 0
    return waited >= (spec.checkpoint_seconds or cost * beside / LARGEST_SHARE)


def _epochs(number: int) -> str:
    return "1 epoch" if number == 1 else f"{number} epochs"


def _obey(stop: Stop, message: str) -> None:
    if stop.number is not None:
        raise Interrupted(stop.number, message)
