"""One spec, executed."""

from collections.abc import Generator, Iterable

import torch

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import OutOfMemoryError
from tfcsr.experiments.folder import RunFolder
from tfcsr.experiments.machine import environment, on_this_machine, settings
from tfcsr.experiments.result import Result
from tfcsr.experiments.together import finish
from tfcsr.files import write_json
from tfcsr.spec import RunSpec
from tfcsr.training.events import JsonLines, Listener
from tfcsr.training.loop import Training


def run(spec: RunSpec, listeners: Iterable[Listener] = ()) -> Result:
    """Train and evaluate as the spec says; with `spec.out`, keep spec, events and result in that folder.

    A folder in which this very spec is already complete gives its result at once.
    """
    spec = on_this_machine(spec)
    with settings(spec):
        return finish(spec, advance(spec, listeners))


def advance(spec: RunSpec, listeners: Iterable[Listener] = ()) -> Generator[None, None, Result]:
    """The same in turns, for a spec that fits this machine: yields while the device works, so that others may go on."""
    folder = RunFolder(spec.out) if spec.out is not None else None
    if folder is not None and (complete := folder.completed(spec)) is not None:
        return complete
    # Nothing is written before all that can be refused has been.
    dataset = BENCHMARKS.get(spec.benchmark).load(spec.data_dir)
    try:
        training = Training(spec, dataset, listeners)
        if folder is None:
            yield from training.advance()
            return Result.of(training, environment(spec))
        folder.create(spec)
        events = JsonLines(folder.events_file)
        training.events.listeners.insert(0, events)
        try:
            yield from training.advance()
        finally:
            events.close()
        result = Result.of(training, environment(spec))
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise OutOfMemoryError(f"out of memory on {spec.device}: {str(error).partition(chr(10))[0]}") from None
    write_json(folder.result_file, result.to_dict())
    return result
