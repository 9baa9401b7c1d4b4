"""What every registered method must keep to; a new one is checked for free."""

import copy
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import make_training, trained

import tfcsr.methods
from tfcsr.data.tasks import TaskSequence
from tfcsr.methods import METHODS
from tfcsr.spec import OPTIONS, matters
from tfcsr.training.loop import Training

every_method = pytest.mark.parametrize("method", METHODS.names())


class Stop(Exception):
    """Ends a run from outside, between two epochs."""


def outcome(training: Training) -> tuple[object, ...]:
    return (
        training.weights_sha256(),
        training.accuracy_matrix,
        training.learner.probes,
        training.epochs_per_task,
        training.optimizer_steps,
        training.samples_seen,
        training.replay_batches,
        training.learner.buffer.x.tolist(),
        training.learner.buffer.y.tolist(),
    )


@every_method
def test_same_spec_same_bits(method):
    assert outcome(trained(method=method)) == outcome(trained(method=method))


@every_method
def test_another_seed_gives_another_run(method):
    assert trained(method=method).weights_sha256() != trained(method=method, seed=1).weights_sha256()


@every_method
def test_the_global_generators_are_neither_used_nor_moved(method):
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    first = outcome(trained(method=method, augment="crop-flip"))
    torch.manual_seed(2)
    np.random.seed(2)
    random.seed(2)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    assert outcome(trained(method=method, augment="crop-flip")) == first
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
    assert before[2] == random.getstate()


@every_method
@pytest.mark.parametrize(("task", "epoch"), [(1, 1), (2, 2), (3, 3)])
def test_a_run_goes_on_from_its_state_to_the_same_bits(method, task, epoch):
    settings = {"method": method, "augment": "crop-flip", "max_epochs": 4, "mastery_threshold": 100, "lr": 1e-4}
    whole = trained(**settings)
    stopped = make_training(**settings)
    saved = {}

    def stop_there():
        if (stopped.task_number, stopped.epoch) == (task, epoch):
            saved.update(copy.deepcopy(stopped.state_dict()))
            raise Stop

    with pytest.raises(Stop):
        stopped.run(stop_there)
    resumed = make_training(**settings)
    resumed.load_state_dict(saved)
    resumed.run()
    assert outcome(resumed) == outcome(whole)


@every_method
def test_the_buffer_stays_within_its_budget(method):
    sizes = []

    def listener(event):
        if event["event"] == "epoch_finished":
            sizes.append(len(training.learner.buffer))

    training = make_training((listener,), method=method, buffer_capacity=10)
    training.run()
    assert max(sizes) <= 10
    assert training.learner.buffer.x.shape[0] == (10 if METHODS.get(method).uses_buffer else 0)


# Another value for each field that is said to matter to some methods only.
OTHER_VALUES = {
    "buffer_capacity": 17,
    "buffer_fill": "after",
    "new_data": "half",
    "replay_view": "frozen",
    "schedule": "fixed",
    "initial_gap": 2.0,
    "gap_multiplier": 3.0,
    "mastery_threshold": 33.0,
    "retention_threshold": 77.0,
    "max_epochs": 2,
    "gate_data": "test",
    "probe_size": 5,
    "probe_mode": "placebo",
    "ewc_lambda": 3.0,
    "si_lambda": 3.0,
}


def test_every_field_of_some_methods_is_tried():
    assert {name for name, option in OPTIONS.items() if option.of} == OTHER_VALUES.keys() | {"policy"}


@pytest.mark.parametrize("method", [name for name in METHODS.names() if METHODS.ships(name)])
def test_a_field_of_other_methods_makes_no_difference(method):
    usual = trained(method=method, augment="crop-flip", epochs=2).weights_sha256()
    for name, value in OTHER_VALUES.items():
        if not matters(name, method):
            changed = trained(method=method, augment="crop-flip", epochs=2, **{name: value})
            assert changed.weights_sha256() == usual, name


@every_method
def test_old_tasks_are_not_looked_at_again(method, monkeypatch):
    asked = []
    task = TaskSequence.task

    def record(self, number, *args):
        asked.append(number)
        return task(self, number, *args)

    monkeypatch.setattr(TaskSequence, "task", record)
    trained(method=method)
    if METHODS.get(method).sees_all_tasks:
        assert method == "joint"
    else:
        assert asked == [1, 2, 3]


@every_method
def test_what_a_task_gave_is_gone_afterwards(method):
    """Overwriting a finished task's tensors changes nothing: whatever is kept of it is a copy in the buffer."""
    settings = {"method": method}
    if METHODS.get(method).sees_all_tasks:
        return
    untouched, spoiled = trained(**settings), make_training(**settings)
    end_task = spoiled._end_task

    def spoil(task, logits):
        end_task(task, logits)
        task.train.x.zero_()
        task.train.y.zero_()
        task.held_out.x.zero_()

    spoiled._end_task = spoil
    spoiled.run()
    assert outcome(spoiled) == outcome(untouched)


@every_method
def test_every_task_is_trained_in_train_mode(method):
    modes = set()
    training = make_training((lambda event: modes.add(training.model.training),), method=method)
    training.run()
    assert modes == {True}


@every_method
@pytest.mark.parametrize("tasks", [1, 4, 6])
def test_any_number_of_tasks(method, tasks):
    training = trained(method=method, tasks=tasks, epochs=1, max_epochs=1)
    assert len(training.accuracy_matrix) == len(training.epochs_per_task) == tasks


@pytest.mark.parametrize("path", sorted(Path(tfcsr.methods.__path__[0]).glob("[!_]*.py")), ids=lambda path: path.name)
def test_a_method_is_a_short_file(path):
    if path.stem != "base":
        assert len(path.read_text(encoding="utf-8").splitlines()) < 100
        assert METHODS.describe(path.stem.replace("_", "-"))
