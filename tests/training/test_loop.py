import itertools
import json

import pytest
import torch
from tests.conftest import make_training, trained
from torch import nn

from tfcsr.errors import DivergedError
from tfcsr.models import MODELS


def recorded(**fields):
    events = []
    training = make_training((events.append,), **fields)
    training.run()
    return training, events


def test_the_events_tell_the_whole_story():
    training, events = recorded(method="tfcsr", epochs=2, mastery_threshold=0)
    kinds = [kind for kind, _ in itertools.groupby(event["event"] for event in events)]
    task = ["task_started", "step", "epoch_finished", "probe", "step", "epoch_finished", "task_finished"]
    assert kinds == ["run_started", *task * 3, "run_finished"]
    steps = [event for event in events if event["event"] == "step"]
    assert len(steps) == training.optimizer_steps
    assert [event["step"] for event in steps[:10]] == list(range(1, 11))
    assert all(json.loads(json.dumps(event)) == event for event in events if event["event"] != "probe")


def test_a_probe_event_says_what_was_recalled_per_class():
    _, events = recorded(method="tfcsr", epochs=1)
    probes = [event for event in events if event["event"] == "probe"]
    assert len(probes) == 3
    for event in probes:
        assert set(event["per_class"]) <= set(range(6))
        assert event["recall"] == pytest.approx(sum(event["per_class"].values()) / len(event["per_class"]), abs=25)


def test_learning_happens_and_replay_forgets_less():
    er, finetune = trained(method="er", epochs=20), trained(method="finetune", epochs=20)
    assert er.accuracy_matrix[0][0] > 90
    assert sum(er.accuracy_matrix[-1]) > sum(finetune.accuracy_matrix[-1]) + 20
    assert finetune.accuracy_matrix[-1][2] > 90


def test_joint_training_sees_all_data_so_far():
    training = trained(method="joint")
    assert training.samples_seen == 4 * (80 + 160 + 240)


def test_one_optimizer_for_the_whole_sequence():
    training = trained(method="finetune")
    state = next(iter(training.optimizer.state.values()))
    assert int(state["step"]) == training.optimizer_steps == 4 * 5 * 3


def test_a_loss_that_is_not_a_number_stops_the_run_and_says_where():
    events = []
    training = make_training((events.append,), method="finetune", model="diverging")
    with pytest.raises(DivergedError, match=r"finetune became nan at step 30 \(task 2, epoch 2\)"):
        training.run()
    assert events[-1]["event"] == "failed"
    assert (events[-1]["step"], events[-1]["task"], events[-1]["epoch"]) == (30, 2, 2)
    json.dumps(events[-1], allow_nan=False)


class Dying(nn.Module):
    """Dead after some training batches: the last layer's bias is all that is left."""

    def __init__(self, shape: tuple[int, int, int], classes: int, after: int) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[1] * shape[2], classes)
        self.after = after
        self.batches = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.batches += self.training
        return self.linear(x.flatten(1) * (self.batches <= self.after))


def test_a_network_that_died_is_noticed_with_its_task():
    MODELS.add("dying")(lambda shape, classes: Dying(shape, classes, after=30))
    training, events = recorded(method="finetune", model="dying")
    assert training.collapsed == 2  # 20 steps a task
    assert [event["task"] for event in events if event["event"] == "collapsed"] == [2]


@pytest.mark.parametrize("tasks", [3, 6])
def test_forgetting_alone_is_no_collapse(tasks):
    """With one class a task, a healthy network that always names the newest class has only forgotten."""
    training = trained(method="finetune", tasks=tasks, epochs=20)
    assert training.accuracy_matrix[-1][-1] > 90
    assert training.collapsed is None


def test_a_dead_network_with_one_class_a_task_is_noticed():
    MODELS.add("dying-late")(lambda shape, classes: Dying(shape, classes, after=30))
    assert trained(method="finetune", model="dying-late", tasks=6).collapsed == 3  # 12 steps a task


def test_bf16_trains_and_differs_from_fp32():
    bf16, fp32 = trained(precision="bf16", epochs=10), trained(precision="fp32", epochs=10)
    assert bf16.weights_sha256() != fp32.weights_sha256()
    assert all(parameter.dtype == torch.float32 for parameter in bf16.model.parameters())
    assert sum(bf16.accuracy_matrix[-1]) == pytest.approx(sum(fp32.accuracy_matrix[-1]), abs=45)


def test_a_last_batch_of_one_joins_the_one_before():
    # 2 classes of 33 examples: 66 = 4 batches of 16 + 2; with 65 a single one would be left over.
    training = make_training(method="finetune", batch_size=79, epochs=1)
    sizes = []
    step = training.steps.step
    training.steps.step = lambda data, row: sizes.append(row.new.shape[1]) or step(data, row)
    training.run()
    assert sizes == [80] * 3


def test_evaluation_covers_every_task_pooled_by_size():
    training = trained(method="finetune", tasks=4)  # 2, 2, 1 and 1 classes
    assert training.tasks.test_sizes == [20, 20, 10, 10]
    assert all(len(row) == 4 for row in training.accuracy_matrix)
    assert len(training.untrained) == 4
