"""ER, TFC-SR and its variants: what is replayed when, counted."""

import numpy as np
import pytest
import torch
from tests.conftest import make_spec, make_training, striped_dataset, trained
from tests.learner.conftest import A, B, C, assert_alike, images, make, mlp

import tfcsr
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.tasks import Task
from tfcsr.errors import SpecError
from tfcsr.methods.base import Mix
from tfcsr.methods.learner import Learner
from tfcsr.recall.schedule import ExpandingSchedule
from tfcsr.training.step import Step

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
def test_the_papers_counters_at_cifars_shape(method, replay_batches, checks, monkeypatch):
    """What each step is given is counted, and the step left out: 15,800 of them would teach nothing more."""
    taken = []

    def count(step, data, positions):
        taken.append(positions.shape)
        return torch.zeros(())

    monkeypatch.setattr(Step, "__call__", count)
    training = trained(benchmark="cifar-shaped", protocol="paper", method=method)
    assert len(taken) == training.optimizer_steps
    assert sum(replay > 0 for _, replay in taken) == training.replay_batches
    assert sum(map(sum, taken)) == training.samples_seen
    assert training.replay_batches == replay_batches
    assert len(training.learner.probes) == checks
    assert training.optimizer_steps == 15_800
    # 78 batches of 32 + 32 and one of 8 + 32 where replayed, all 5,000 new examples where not.
    replayed_epochs = replay_batches // 79
    assert training.samples_seen == replayed_epochs * (78 * 64 + 40) + (200 - replayed_epochs) * 5_000


def test_at_cifars_shape_what_is_due_is_enough(monkeypatch):
    """Defaults leave the runs of docs/beyond as they are; no step is taken here, so that nothing is ever known."""
    replayed = []

    def listener(event):
        if event["event"] == "epoch_finished" and event["replayed"]:
            replayed.append((event["task"], event["epoch"]))

    monkeypatch.setattr(Step, "__call__", lambda step, data, positions: torch.zeros(()))
    fields = {"benchmark": "cifar-shaped", "method": "tfcsr-distill", "batch_size": 64, "new_data": "half"}
    for share in (0.0, 0.1):
        replayed.clear()
        training = make_training((listener,), exam_share=share, **fields)
        training.run()
        assert training.spec.replay_least == 300
        assert replayed == [(task, epoch) for task in range(2, 11) for epoch in (1, 3, 5, 8, 13)]


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


# In which epochs, and how many


def refused(**fields):
    with pytest.raises(SpecError) as error:
        make_spec(**fields)
    assert str(error.value).isprintable()
    return str(error.value)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("3,1", "1,3"), ("1,3", "1,3"), (" 2 , 2,10 ", "2,10"), ("7", "7"), (7, "7"), ("007", "7"), ("none", "none")],
)
def test_a_list_of_epochs_is_sorted_and_each_is_there_once(given, kept):
    spec = make_spec(method="er", replay_epochs=given)
    assert spec.replay_epochs == kept
    assert spec == make_spec(method="er", replay_epochs=kept)
    assert spec.key() == make_spec(method="er", replay_epochs=kept).key()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("none/3,1/all", "none/1,3/all"),
        (" 2 / 4, 4 ", "2/4"),
        ("1/1/1", "1"),  # as it is in the last, it is in all that follow
        ("1/2/1/1", "1/2/1"),
        ("none/none", "none"),
    ],
)
def test_each_task_may_have_a_list_of_its_own(given, kept):
    spec = make_spec(method="er", replay_epochs=given)
    assert spec.replay_epochs == kept
    assert spec.key() == make_spec(method="er", replay_epochs=kept).key()


@pytest.mark.parametrize("given", ["1/", "/1", "1//2", "1/due", "due/1", "1/x", "/", "1/0"])
def test_a_list_for_each_task_that_is_none(given):
    said = refused(method="er", replay_epochs=given)
    assert f"replay_epochs {given!r} is neither all" in said
    assert "for each task like none/1,3/2" in said


@pytest.mark.parametrize("given", ["0", "", "1,,2", "x", ",", "1,", "-1", "1.5", "1;2", "All", 0, -1, True, 1.5])
def test_a_list_of_epochs_that_is_none(given):
    assert f"replay_epochs {given!r} is neither all, none, due nor a list" in refused(method="er", replay_epochs=given)


class Steps:
    """A run with what each of its steps was made of, by task and epoch."""

    def __init__(self, **fields):
        self.new, self.replayed, self.due = {}, {}, {}
        self.training = training = make_training(**fields)
        step, buffer = training.steps.step, training.learner.buffer

        def note(data, row, **more):
            at = training.task_number, training.epoch
            self.new.setdefault(at, []).append(row.new[0].tolist())
            self.replayed.setdefault(at, []).append(buffer.y[row.replay[0]].tolist())
            self.due.setdefault(at, getattr(training.method, "due", None))
            return step(data, row, **more)

        training.steps.step = note
        training.run()

    def shapes(self, at):
        return {(len(new), len(old)) for new, old in zip(self.new[at], self.replayed[at], strict=True)}


def test_only_listed_epochs_replay():
    steps = Steps(method="er", replay_epochs="2,4,13")
    for (task, epoch), rows in steps.replayed.items():
        assert any(rows) is (epoch in (2, 4)), (task, epoch)
        assert steps.shapes((task, epoch)) == {(8, 8) if epoch in (2, 4) else (16, 0)}
    assert steps.training.replay_batches == 3 * 2 * 10
    assert steps.training.replayed == 3 * 2 * 80


@pytest.mark.parametrize("method", ["er", "tfcsr-distill"])
def test_only_the_epochs_listed_for_a_task_replay(method):
    """The last list holds for the tasks after it."""
    steps = Steps(method=method, replay_epochs="none/2,3/1", warmup_epochs=0)
    assert {at for at, rows in steps.replayed.items() if any(rows)} == {(2, 2), (2, 3), (3, 1)}
    steps = Steps(method=method, replay_epochs="none/2", warmup_epochs=0)
    assert {at for at, rows in steps.replayed.items() if any(rows)} == {(2, 2), (3, 2)}


@pytest.mark.parametrize("fields", [{}, {"buffer_fill": "after", "policy": "herding"}], ids=["before", "after"])
@pytest.mark.parametrize("method", ["er", "tfcsr"])
def test_without_any_replay_it_is_plain_training(method, fields):
    """Each kind of draw has a generator of its own: that there is a buffer is not noticed."""
    replayed = trained(method=method, replay_epochs="none", augment="crop-flip", **fields)
    assert (replayed.replay_batches, replayed.replayed) == (0, 0)
    assert len(replayed.learner.buffer) == 24
    assert replayed.weights_sha256() == trained(method="finetune", augment="crop-flip").weights_sha256()


@pytest.mark.parametrize("count", [1, 5, 8, 15])
def test_so_many_of_a_batch_are_replayed(count):
    steps = Steps(method="er", replay_per_batch=count, epochs=1)
    for at, new in steps.new.items():
        used = [row for batch in new for row in batch]
        assert sorted(used) == list(range(80)), at
        assert {len(batch) for batch in new[:-1]} == {16 - count}
        assert {len(old) for old in steps.replayed[at]} == {count}
    assert steps.training.replayed == 3 * count * -(-80 // (16 - count))


def test_half_of_a_batch_by_default():
    assert trained(method="er", replay_per_batch=8).weights_sha256() == trained(method="er").weights_sha256()


def test_derpp_draws_so_many_twice():
    steps = Steps(method="derpp", replay_per_batch=3, epochs=1)
    assert {len(old) for old in steps.replayed[2, 1]} == {6}
    assert {len(new) for new in steps.new[2, 1][:-1]} == {13}


@pytest.mark.parametrize("count", [16, 17, 10**6])
def test_a_batch_has_room_for_new_examples(count):
    assert "use 0..15" in refused(method="er", replay_per_batch=count)


def test_an_epoch_without_replay_may_have_the_new_examples_of_a_mixed_one():
    mixed, same, full = (
        Steps(method="er", epochs=2, **fields)
        for fields in ({}, {"replay_epochs": "2", "unmixed": "same"}, {"replay_epochs": "2"})
    )
    assert same.new == mixed.new
    for task in (1, 2, 3):
        assert same.shapes((task, 1)) == {(8, 0)}
        assert same.shapes((task, 2)) == {(8, 8)}
        assert full.shapes((task, 1)) == {(16, 0)}
    assert same.training.optimizer_steps == mixed.training.optimizer_steps > full.training.optimizer_steps
    assert same.training.replay_batches == mixed.training.replay_batches / 2
    assert same.training.replayed == mixed.training.replayed / 2


@pytest.mark.parametrize(("method", "unmixed"), [("er", "same"), ("er-ace", "same"), ("tfcsr-distill", "later")])
def test_a_control_has_the_new_examples_of_replay_in_every_epoch_in_every_task(method, unmixed):
    """A method that replays from the second task on has full batches in the first, as if no other were planned."""
    every, control = (
        Steps(method=method, epochs=3, new_data="half", **fields)
        for fields in ({"replay_epochs": "all"}, {"replay_epochs": "1,3", "unmixed": unmixed})
    )
    assert control.new == every.new
    assert control.training.optimizer_steps == every.training.optimizer_steps
    assert 0 < control.training.replayed < every.training.replayed


def test_also_where_half_of_them_go_unused():
    mixed, same = (
        Steps(method="er", epochs=1, new_data="half", **fields)
        for fields in ({}, {"replay_epochs": "none", "unmixed": "same"})
    )
    assert same.new == mixed.new
    assert len(same.new[1, 1]) == 5
    assert same.shapes((3, 1)) == {(8, 0)}


@pytest.mark.parametrize("method", ["er", "er-ace", "derpp", "icarl", "mgp"])
def test_without_a_schedule_nothing_is_due(method):
    assert f"replay_epochs due: {method} has no schedule" in refused(method=method, replay_epochs="due")


def test_a_frozen_view_is_not_strong():
    assert "use augment crop-flip, or fresh" in refused(method="er", augment="strong", replay_view="frozen")
    assert "use augment crop-flip, or fresh" in refused(method="tfcsr", augment="strong", protocol="paper")
    make_spec(method="er", augment="strong")


# By a schedule


def test_what_is_due_is_what_is_replayed():
    """tfcsr-spaced is tfcsr with replay that is due."""
    fields = {"epochs": 6, "mastery_threshold": 60}
    spaced, due = trained(method="tfcsr-spaced", **fields), trained(method="tfcsr", replay_epochs="due", **fields)
    assert due.weights_sha256() == spaced.weights_sha256()
    assert due.replayed == spaced.replayed > 0


@pytest.mark.parametrize("new_data", ["all", "half"])
@pytest.mark.parametrize("fill", ["before", "after"])
def test_by_class_what_is_due_and_what_arrives_is_replayed_and_nothing_else(new_data, fill):
    fields = {"replay_epochs": "due", "schedule_per": "class", "policy": "class-balanced", "new_data": new_data}
    steps = Steps(method="tfcsr", epochs=8, mastery_threshold=60, lr=3e-3, buffer_fill=fill, **fields)
    classes, partial = steps.training.tasks.classes, 0
    for (task, epoch), due in steps.due.items():
        old = {label for part in classes[: task - 1] for label in part}
        replayed, new = steps.replayed[task, epoch], [len(batch) for batch in steps.new[task, epoch]]
        labels = {label for batch in replayed for label in batch}
        if task == 1:
            assert due == []
        assert set(due) <= old
        if not due:
            assert not labels
            assert set(new) == {16}
            continue
        assert labels == ({*due, *classes[task - 1]} if fill == "before" else {*due})
        # Half a batch of all old classes; of some of them their share, in eighths of a batch, rounded up.
        part = -(-8 * len(due) // len(old) // 2) * 2
        assert {len(batch) for batch in replayed} == {part}
        assert set(new[:-1]) == {16 - part}
        assert new[-1] <= 16 - part
        partial += len(due) < len(old)
    assert partial >= 3


@pytest.mark.parametrize(("per_batch", "parts"), [(5, [2, 4, 4, 5]), (8, [2, 4, 6, 8]), (12, [4, 6, 10, 12])])
def test_by_class_a_share_of_a_batch_is_rounded_up_to_eighths(per_batch, parts):
    fields = {"replay_epochs": "due", "schedule_per": "class", "tasks": 2, "class_order": (0, 1, 2, 3, 4, 5)}
    training = make_training(method="tfcsr", replay_per_batch=per_batch, **fields)
    training.method.begin_task(training.tasks.task(1))
    training.method.begin_task(training.tasks.task(2))
    agenda = training.method.agenda
    agenda.classes = {label: agenda.schedule.start(99) for label in range(4)}
    for label, replay in enumerate(parts):
        agenda.classes[label] = agenda.schedule.start()
        assert training.method.mix(training.tasks.task(2), 1) == Mix(16 - replay, replay, 16 - replay)


def test_by_class_where_there_are_few_examples_they_are_replayed_whole():
    fields = {"replay_epochs": "due", "schedule_per": "class", "buffer_capacity": 4, "policy": "class-balanced"}
    steps = Steps(method="tfcsr", epochs=2, mastery_threshold=0, **fields)
    kept = sorted(steps.training.learner.buffer.y.tolist())
    among = {*steps.due[3, 1], *steps.training.tasks.classes[2]}
    for batch in steps.replayed[3, 1]:
        assert sorted(batch) == [label for label in kept if label in among]


def test_draws_among_some_are_of_those_alone_each_once_and_all_alike():
    buffer = trained(method="er", epochs=1).learner.buffer
    among = torch.tensor([3, 7, 8, 20, 21])
    for sets, count in ((400, 2), (1, 5), (3, 5), (200, 1)):
        drawn = buffer.draw(sets, count, torch.Generator().manual_seed(1), among)
        assert drawn.shape == (sets, count)
        assert all(len({*row}) == count and {*row} <= {*among.tolist()} for row in drawn.tolist())
        assert sets < 200 or int(drawn.flatten().bincount()[among].min()) > 0.7 * sets * count / 5
    with pytest.raises(ValueError, match="from 5"):
        buffer.draw(1, 6, torch.Generator(), among)
    everything = torch.arange(24)
    one, other = (buffer.draw(5, 9, torch.Generator().manual_seed(2), some) for some in (None, everything))
    assert torch.equal(one, other)


# A network that is kept


@pytest.mark.parametrize("fields", [{}, {"schedule_per": "class", "schedule": "leitner"}], ids=["memory", "class"])
def test_a_learner_saved_and_loaded_goes_on_to_the_same_bits(fields, tmp_path):
    one, other = (make("tfcsr-distill", exam_share=0.2, warmup_epochs=0, **fields) for _ in range(2))
    for learner in (one, other):
        learner.learn(*images(A))
        learner.learn(*images(B))
    other.save(tmp_path / "learner")
    loaded = tfcsr.Learner.load(tmp_path / "learner", model=mlp)
    assert_alike(one, loaded)
    for learner in (one, loaded):
        learner.learn(*images(C))
    assert_alike(one, loaded)
    assert one.classes == loaded.classes == ["n", "m", "a", "b", "c"]
    assert loaded.state_dict()["loop"]["exam"]["kept"]["size"] == 4


def test_a_learner_asks_its_exam(monkeypatch):
    learner = make("tfcsr-distill", exam_share=0.4, warmup_epochs=0)
    learner.learn(*images(A))
    learner.learn(*images(B))
    memory, asked = learner._loop.learner, []
    predict = type(memory.method).predict
    monkeypatch.setattr(type(memory.method), "predict", lambda self, x: asked.append(x) or predict(self, x))
    recalled = learner.recall()
    exam = memory.exam.kept
    (x,) = asked
    assert sorted(image.numpy().tobytes() for image in x) == sorted(image.numpy().tobytes() for image in exam.x)
    assert set(recalled.per_class) == {learner.classes[label] for label in exam.classes().tolist()}
    assert sum(recalled.kept.values()) == len(exam) + len(memory.buffer) == 20
    right = np.array(learner.predict(exam.x.numpy())) == np.array(learner.classes)[exam.y.numpy()]
    assert recalled.overall == pytest.approx(100 * right.mean())


def test_what_is_forgotten_is_gone_from_the_exam_too():
    learner = make("tfcsr-distill", exam_share=0.4, warmup_epochs=0)
    learner.learn(*images(A))
    learner.learn(*images(B))
    memory, number = learner._loop.learner, learner.classes.index("m")
    buffer, exam = (int((part.y == number).sum()) for part in (memory.buffer, memory.exam.kept))
    assert buffer > 0
    assert exam > 0
    assert learner.forget("m") == buffer + exam
    assert learner.forget("m") == 0
    assert number not in memory.exam.kept.y.tolist()
    assert number not in memory.buffer.y.tolist()
    assert "m" not in learner.recall().per_class
    assert learner.recall().kept["m"] == 0
    learner.learn(*images(C))
    assert learner.recall().kept["m"] == 0


# All tasks together


def test_joint_with_the_budget_of_the_newest_task():
    def steps(**fields):
        taken = Steps(model="tiny-linear", epochs=2, **fields)
        return {at: len(new) for at, new in taken.new.items()}, taken

    alone, _ = steps(method="finetune")
    newest, taken = steps(method="joint", joint_epoch="newest")
    assert newest == alone == {(task, epoch): 5 for task in (1, 2, 3) for epoch in (1, 2)}
    everything, _ = steps(method="joint")
    assert everything == {(task, epoch): 5 * task for task in (1, 2, 3) for epoch in (1, 2)}
    # Batches as large, of examples of all tasks, each once at most.
    used = [row for batch in taken.new[3, 1] for row in batch]
    assert len(used) == len(set(used)) == 80
    assert min(np.bincount(np.array(used) // 80, minlength=3)) > 10
    assert set(used) != {row for batch in taken.new[3, 2] for row in batch}


@pytest.mark.parametrize("batch_size", [16, 24, 80, 100])
def test_also_where_a_task_is_no_whole_number_of_batches(batch_size):
    counts = [
        trained(method=method, batch_size=batch_size, epochs=1, **fields).optimizer_steps
        for method, fields in (("finetune", {}), ("joint", {"joint_epoch": "newest"}))
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("batch_size", "tasks"), [(2, 4), (3, 4), (2, 5)])
def test_also_where_tasks_are_of_several_sizes(batch_size, tasks):
    fields = {"batch_size": batch_size, "tasks": tasks, "epochs": 1, "model": "tiny-linear", "max_per_class": 7}
    counts = [
        trained(method=method, **fields, **more).optimizer_steps
        for method, more in (("finetune", {}), ("joint", {"joint_epoch": "newest"}))
    ]
    assert counts[0] == counts[1]
