"""A run that probed after every epoch also holds what any other schedule would have made of it.

The probe leaves no trace in the training, and what it finds at an epoch does not depend on the probes before. `dense`
is that run, `seen_by` the record another schedule would have left, to the last bit (`tests/paper/test_dense.py`).
"""

import dataclasses

from tfcsr.errors import OutputError
from tfcsr.experiments.record import MACHINE, Record
from tfcsr.recall.schedule import SCHEDULES
from tfcsr.spec import RunSpec


def seen_by(record: Record, spec: RunSpec) -> Record:
    """The record of this spec's run, read off another, which is that of `dense(spec)`."""
    found = {(int(task), int(epoch)): recall for task, epoch, recall in record.probes}
    probes: list[list[float]] = []
    if spec.method == "tfcsr" and spec.probe_mode == "eval":
        schedule = SCHEDULES.get(spec.schedule)(**spec.options_of(SCHEDULES, spec.schedule))
        for task, epochs in enumerate(record.epochs_per_task, start=1):
            state = schedule.start()
            while state.next_epoch <= epochs:
                recall = found.get((task, state.next_epoch))
                if recall is None:
                    raise OutputError(f"the record of {record.run_spec.name()} lacks probes: take it out to run again")
                probes.append([task, state.next_epoch, recall])
                state, _ = schedule.review(state, recall)
    machine = {name: record.spec[name] for name in MACHINE}
    return dataclasses.replace(record, probes=probes, spec=spec.to_dict() | machine)


def dense(spec: RunSpec) -> RunSpec:
    """The run that holds this one, and those of every other schedule: TFC-SR with a probe after every epoch."""
    if spec.method not in ("er", "tfcsr") or spec.get("probe_mode") not in (None, "eval", "none"):
        return spec
    own = {"method": "tfcsr", "probe_mode": "eval", "schedule": "fixed"}
    return spec.replace(**own, initial_gap=1.0, mastery_threshold=0.0)
