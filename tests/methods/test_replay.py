"""ER, TFC-SR and its variants: what is replayed when, counted."""

import pytest
import torch
from tests.conftest import make_spec, make_training, striped_dataset, trained

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.tasks import Task
from tfcsr.methods.learner import Learner
from tfcsr.recall.schedule import ExpandingSchedule

# CIFAR-100's shape in everything that counts: 10 tasks of 10 classes with 500 examples each. One pixel is enough.
BENCHMARKS.add("cifar-shaped")(
    Benchmark(
        load=lambda data_dir: striped_dataset(classes=100, train=500, test=1, size=1),
        classes=100,
        tasks=10,
        defaults={"model": "tiny-linear", "epochs": 20, "buffer_capacity": 1000, "mastery_threshold": 0.0},
    )
)


@pytest.mark.parametrize(("method", "replay_batches", "checks"), [("tfcsr", 15_800, 50), ("tfcsr-spaced", 3_555, 45)])
def test_the_papers_counters_at_cifars_shape(method, replay_batches, checks):
    training = trained(benchmark="cifar-shaped", protocol="paper", method=method)
    assert training.replay_batches == replay_batches
    assert len(training.learner.probes) == checks
    assert training.optimizer_steps == 15_800
    # 78 batches of 32 + 32 and one of 8 + 32 where replayed, all 5,000 new examples where not.
    replayed_epochs = replay_batches // 79
    assert training.samples_seen == replayed_epochs * (78 * 64 + 40) + (200 - replayed_epochs) * 5_000


def test_by_default_every_new_example_is_used():
    half, whole = trained(method="er", protocol="paper"), trained(method="er")
    # A task has 80 examples: 5 batches of 16 of which 8 are kept, or 10 batches of 8; 4 epochs, 3 tasks.
    assert half.optimizer_steps == 5 * 4 * 3
    assert whole.optimizer_steps == 10 * 4 * 3
    assert whole.samples_seen == 10 * 16 * 4 * 3


def test_probes_are_recorded_with_their_schedule():
    training = trained(method="tfcsr", epochs=9, mastery_threshold=0)
    expected = [(task, epoch, later) for task in (1, 2, 3) for epoch, later in ((1, 3), (3, 5), (5, 8), (8, 13))]
    assert [(p["task"], p["epoch"], p["next_epoch"]) for p in training.learner.probes] == expected
    assert all(p["passed"] and 0 <= p["recall"] <= 100 for p in training.learner.probes)


def test_a_threshold_never_reached_probes_after_every_epoch():
    training = trained(method="tfcsr", epochs=5, mastery_threshold=100, lr=1e-6)
    assert [p["epoch"] for p in training.learner.probes] == [1, 2, 3, 4, 5] * 3
    assert not any(p["passed"] for p in training.learner.probes)


def test_spaced_replay_replays_in_the_probed_epochs_only():
    replayed = []

    def listener(event):
        if event["event"] == "epoch_finished":
            replayed.append((event["task"], event["epoch"], event["replayed"]))

    from tests.conftest import make_training

    training = make_training((listener,), method="tfcsr-spaced", epochs=6, mastery_threshold=0)
    training.run()
    probed = {(p["task"], p["epoch"]) for p in training.learner.probes}
    assert probed == {(task, epoch) for task in (2, 3) for epoch in (1, 3, 5)}
    assert {(task, epoch) for task, epoch, mixed in replayed if mixed} == probed


@pytest.mark.parametrize("fill", ["before", "after"])
def test_when_the_buffer_is_filled(fill, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "tfcsr.methods.er.ExperienceReplay.end_epoch",
        lambda self, task, epoch: seen.append((task.number, self.learner.buffer.seen)) or False,
    )
    trained(method="er", epochs=1, buffer_fill=fill)
    assert seen == ([(1, 80), (2, 160), (3, 240)] if fill == "before" else [(1, 0), (2, 80), (3, 160)])


def test_a_buffer_smaller_than_half_a_batch_is_replayed_whole():
    training = trained(method="er", buffer_capacity=3, epochs=1)
    assert training.samples_seen == 3 * 10 * (8 + 3)


def test_a_frozen_view_is_stored_a_fresh_one_is_not(monkeypatch):
    dataset = BENCHMARKS.get("tiny").load(None)
    originals = {row.tobytes() for row in dataset.train_x}

    def stored(view):
        training = trained(method="er", augment="crop-flip", replay_view=view, epochs=1)
        return [row.numpy().tobytes() in originals for row in training.learner.buffer.x]

    assert all(stored("fresh"))
    assert not all(stored("frozen"))


@pytest.mark.parametrize("mode", ["eval", "train", "placebo", "none"])
def test_probe_modes(mode):
    """Only the placebo's draws reach the weights; only train mode reaches the batch-norm statistics."""
    er, probed = trained(method="er"), trained(method="tfcsr", probe_mode=mode, mastery_threshold=0)
    weights = all(torch.equal(a, b) for a, b in zip(er.model.parameters(), probed.model.parameters(), strict=True))
    statistics = torch.equal(er.model[1].running_mean, probed.model[1].running_mean)
    assert weights is (mode != "placebo")
    assert statistics is (mode in ("eval", "none"))
    assert len(probed.learner.probes) == (0 if mode == "none" else 6)


class Gate:
    """mgp with the two scores given instead of measured."""

    def __init__(self, monkeypatch, mastery, recall):
        from tfcsr.recall.probe import Recall

        self.measured_on = []
        monkeypatch.setattr(Learner, "accuracy", lambda learner, data: self.measured_on.append(data) or mastery)
        monkeypatch.setattr(Learner, "recall", lambda learner, task, epoch: Recall(recall, {}))


@pytest.mark.parametrize(
    ("mastery", "recall", "epochs"),
    [
        (85.0, 15.0, [1, 1, 1]),
        (84.9, 100.0, [6, 6, 6]),
        (100.0, 14.9, [1, 6, 6]),  # in the first task there is nothing to retain
    ],
)
def test_mgp_goes_on_when_both_thresholds_are_reached(monkeypatch, mastery, recall, epochs):
    Gate(monkeypatch, mastery, recall)
    assert trained(method="mgp").epochs_per_task == epochs


def test_mgp_replays_from_the_second_task_on():
    training = trained(method="mgp", max_epochs=2, mastery_threshold=100, retention_threshold=100, lr=1e-6)
    assert training.epochs_per_task == [2, 2, 2]
    # 36 of 40 examples a class are left to train on: 72 a task.
    assert training.optimizer_steps - training.replay_batches == 2 * 5
    assert training.replay_batches == 2 * 2 * 9


@pytest.mark.parametrize(("protocol", "examples"), [("default", 8), ("paper", 20)])
def test_mgp_gates_on_held_out_data_unless_told_otherwise(monkeypatch, protocol, examples):
    gate = Gate(monkeypatch, 100.0, 100.0)
    training = trained(method="mgp", protocol=protocol)
    if protocol == "default":
        gate.measured_on.pop()  # the finished run, on the held-out data of all tasks
    assert {len(data) for data in gate.measured_on} == {examples}
    test = training.tasks.test.x
    on_test = all((test == row).flatten(1).all(1).any() for data in gate.measured_on for row in data.x)
    assert on_test is (protocol == "paper")


def test_held_out_data_is_not_trained_on():
    training = trained(method="mgp", max_epochs=1)
    task: Task = training.tasks.task(1, 0.1, seed=0)
    assert (len(task.train), len(task.held_out)) == (72, 8)
    inside = (task.train.x[:, None] == task.held_out.x[None]).flatten(2).all(2)
    assert not bool(inside.any())
    assert sorted(task.held_out.y.unique().tolist()) == sorted(task.classes)


def test_the_held_out_data_of_all_tasks_judges_the_finished_run():
    assert trained(method="er").held_out_accuracy is None
    training = trained(method="er", held_out=0.25)
    parts = [training.tasks.task(number, 0.25, training.spec.seed).held_out for number in (1, 2, 3)]
    right = sum(training.learner.accuracy(part) * len(part) for part in parts)
    assert training.held_out_accuracy == pytest.approx(right / sum(map(len, parts)))


def test_a_left_over_loader_gives_the_last_task_in_every_task():
    """The paper's Split MNIST ER: the buffer saw the right tasks, the new half of each batch was the last one's."""
    training = make_training(method="er", new_task="last")
    seen = []
    take = training.steps.take

    def record(batches, losses):
        seen.append({*training.steps.data.y[batches.new].flatten().tolist()})
        return take(batches, losses)

    training.steps.take = record
    training.run()
    assert set.union(*seen) == set(training.tasks.classes[-1])
    assert {*training.learner.buffer.y.tolist()} == set(range(6))


def test_what_a_probe_finds_does_not_depend_on_the_probes_before_it():
    """So one run that probes after every epoch holds every schedule's history."""
    dense = trained(method="tfcsr", gap_multiplier=1.0, epochs=8)
    found = {(p["task"], p["epoch"]): p["recall"] for p in dense.learner.probes}
    assert len(found) == 3 * 8
    for threshold in (0, 60, 100):
        spaced = trained(method="tfcsr", mastery_threshold=threshold, epochs=8)
        assert len(spaced.learner.probes) > 0
        assert all(found[p["task"], p["epoch"]] == p["recall"] for p in spaced.learner.probes)


def test_the_spec_makes_its_schedule():
    spec = make_spec(initial_gap=2, gap_multiplier=3, mastery_threshold=4)
    assert make_training(**spec.given()).method.agenda.schedule == ExpandingSchedule(2.0, 3.0, 4.0)
