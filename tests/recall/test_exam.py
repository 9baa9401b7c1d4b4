"""The exam is never trained on: neither when it arrives nor later, by no method, and nothing else changes for it."""

import copy
import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.conftest import make_spec, make_training, striped_dataset, trained

import tfcsr
from tfcsr.buffer.buffer import Buffer
from tfcsr.data.tasks import Examples
from tfcsr.errors import SpecError
from tfcsr.experiments.result import Result
from tfcsr.methods import METHODS
from tfcsr.methods.base import Mix
from tfcsr.recall.exam import Exam
from tfcsr.testing import Recorder, captured, outcome
from tfcsr.training import staging
from tfcsr.training.batches import plan_epoch
from tfcsr.training.checkpoint import Checkpoints

METHODS_WITH_ONE = ("er", "er-ace", "derpp", "icarl", "tfcsr", "tfcsr-spaced", "mgp", "tfcsr-distill")
SHARE = 0.25
FIELDS = {"exam_share": SHARE, "epochs": 2, "max_epochs": 2, "lr": 1e-3, "warmup_epochs": 0}


def drawing(seed=0):
    return torch.Generator().manual_seed(seed)


def known(images):
    """Each image by its pixels, of which no two have the same."""
    return {image.numpy().tobytes() for image in images}


def everything(training):
    """All that a run has come to, its exam too."""
    exam = training.learner.exam
    return outcome(training), {name: field.tolist() for name, field in exam.kept.fields.items()}, exam.rows.tolist()


def recorded(training):
    """Run it. What was in the exam, in the buffer, and in batches as new and as replayed; of each task."""
    step, learner = training.steps.step, training.learner
    seen = {task: {name: set() for name in ("exam", "buffer", "new", "replayed")} for task in (1, 2, 3)}

    def note(data, row, **more):
        of = seen[training.task_number]
        of["new"] |= known(data.x[row.new.flatten()])
        of["replayed"] |= known(learner.buffer.x[row.replay.flatten()])
        of["exam"] |= known(learner.exam.kept.x[: len(learner.exam)])
        of["buffer"] |= known(learner.buffer.x[: len(learner.buffer)])
        return step(data, row, **more)

    training.steps.step = note
    training.run()
    of = seen[3]  # what end_task has done
    of["exam"] |= known(learner.exam.kept.x[: len(learner.exam)])
    of["buffer"] |= known(learner.buffer.x[: len(learner.buffer)])
    return seen


def test_every_image_is_its_own():
    x = striped_dataset().train_x
    assert len({image.tobytes() for image in x}) == len(x)


def test_every_method_with_a_memory_is_tried():
    with_one = {m for m in METHODS.names() if METHODS.ships(m) and make_spec(method=m).get("exam_share") is not None}
    assert with_one == set(METHODS_WITH_ONE)


@pytest.mark.parametrize(
    ("method", "fields"), [(m, {}) for m in METHODS_WITH_ONE] + [("er", {"buffer_fill": "after", "policy": "herding"})]
)
def test_what_is_in_the_exam_is_never_trained_on(method, fields):
    training = make_training(method=method, **FIELDS, **fields)
    seen = recorded(training)
    ever = {name: set.union(*(of[name] for of in seen.values())) for name in seen[1]}
    assert not ever["exam"] & (ever["new"] | ever["replayed"])
    assert not ever["exam"] & ever["buffer"]
    assert ever["replayed"] <= ever["buffer"] <= ever["new"]
    for number in (1, 2, 3):
        task = training.tasks.task(number, training.spec.held_out, training.spec.seed)
        own = known(task.train.x)
        asked = seen[number]["exam"] & own
        assert asked, "nothing of this task is in the exam"
        # All else is learned.
        assert seen[number]["new"] == own - asked
    # Of the first task there is some exam left to the end, and some buffer.
    first = known(training.tasks.task(1, training.spec.held_out, training.spec.seed).train.x)
    assert first & known(training.learner.exam.kept.x)
    assert first & known(training.learner.buffer.x)


@pytest.mark.parametrize("method", ["er", "derpp"])
def test_nor_by_steps_as_a_gpu_takes_them(method):
    fields = {"method": method, "batch_size": 24, **FIELDS}
    training = captured(Recorder(), **fields)
    training.run()
    assert everything(training) == everything(trained(**fields))


@pytest.mark.parametrize("new_data", ["all", "half"])
def test_a_plan_leaves_the_others_rows_alone(new_data):
    training = make_training(method="er", new_data=new_data)
    rows = torch.arange(80)[torch.arange(80) % 3 > 0]
    training.method.begin_task(training.tasks.task(1))
    plan = plan_epoch(training.learner, 80, Mix(8, 8, 16 if new_data == "half" else 8), rows=rows)
    used = torch.cat([batches.new.flatten() for batches in plan]).tolist()
    assert len(used) == len(set(used))
    assert set(used) <= set(rows.tolist())
    assert len(used) == (53 if new_data == "all" else 3 * 8 + 5)


# Its size


@pytest.mark.parametrize(
    ("capacity", "share", "exam"),
    [(24, 0.25, 6), (24, 0.9, 21), (10, 0.35, 3), (24, 0.01, 1), (2, 0.9, 1), (1, 0.9, 0)],
)
def test_the_exam_is_a_share_of_the_memory(capacity, share, exam):
    training = trained(method="er", buffer_capacity=capacity, exam_share=share, epochs=1)
    learner = training.learner
    assert learner.exam.capacity == exam
    assert learner.exam.capacity + learner.buffer.capacity == capacity
    plain = trained(method="er", buffer_capacity=capacity, epochs=1)
    result, before = Result.of(training, {}, {}), Result.of(plain, {}, {})
    assert result.buffer_bytes == learner.buffer.nbytes + learner.exam.kept.nbytes == before.buffer_bytes


def test_what_a_method_stores_beside_an_example_it_does_not_store_in_the_exam():
    training = trained(method="derpp", **FIELDS)
    assert "logits" in training.learner.buffer.fields
    assert set(training.learner.exam.kept.fields) == {"x", "y"}


def some_examples(counts):
    """So many of each class, mixed, each with its number as its pixels."""
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    y = y[torch.randperm(len(y), generator=drawing(1))]
    x = torch.stack([torch.arange(len(y)) // 256, torch.arange(len(y)) % 256], dim=1).to(torch.uint8)
    return Examples(x.reshape(-1, 2, 1, 1), y)


def numbers(x):
    pixels = x.reshape(-1, 2).long()
    return pixels[:, 0] * 256 + pixels[:, 1]


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any),
    capacity=st.integers(1, 20),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 3),
)
def test_of_each_class_its_share_at_most(counts, capacity, share, seed):
    examples = some_examples(counts)
    exam = Exam(capacity, (2, 1, 1), share=share)
    exam.take(examples, drawing(seed))
    taken = examples.y[exam.rows].bincount(minlength=len(counts)).tolist()
    for count, asked in zip(counts, taken, strict=True):
        assert asked <= share * count + 1e-3  # where a product is rounded up to a whole number
        assert count == 0 or asked < count, "nothing is left to learn"
    # As many as there is room for, and the rows are those of what is kept.
    offered = [int(share * count + 1e-3) for count in counts]
    assert len(exam.rows) == len(exam) == min(capacity, sum(offered))
    assert sorted(numbers(exam.kept.x[: len(exam)]).tolist()) == exam.rows.tolist()
    assert torch.equal(exam.kept.y[: len(exam)], examples.y[numbers(exam.kept.x[: len(exam)])])
    # Room is shared by the classes as far as their examples reach.
    for asked, most in zip(taken, offered, strict=True):
        assert asked == most or asked >= max(taken) - 1
    # The others are all that is not in it.
    others = exam.others(len(examples))
    if len(exam) == 0:
        assert others is None
    else:
        assert sorted([*others.tolist(), *exam.rows.tolist()]) == list(range(len(examples)))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_a_class_of_few_examples_keeps_some_to_learn_from(share):
    for count in range(1, 12):
        exam = Exam(100, (2, 1, 1), share=share)
        exam.take(some_examples([count, 40]), drawing())
        asked = int((exam.kept.y == 0).sum())
        assert asked == int(count * share + 1e-6)
        assert count - asked >= 1


def test_a_class_is_drawn_from_at_random():
    examples, drawn = some_examples([20, 20]), []
    for seed in range(200):
        exam = Exam(4, (2, 1, 1), share=0.2)
        exam.take(examples, drawing(seed))
        drawn += exam.rows.tolist()
    often = torch.tensor(drawn).bincount(minlength=40)
    assert len(drawn) == 800
    assert int(often.min()) > 5
    assert int(often.max()) < 45


@pytest.mark.parametrize("capacity", [6, 12, 20])
def test_after_several_tasks_each_class_has_as_many_as_the_others(capacity):
    training = trained(method="er", buffer_capacity=4 * capacity, exam_share=0.25, epochs=1)
    exam = training.learner.exam
    assert len(exam) == exam.capacity == capacity
    counts = exam.kept.y.bincount(minlength=6)
    assert int(counts.max() - counts.min()) <= 1


def test_a_class_that_comes_again_is_still_balanced():
    exam = Exam(8, (2, 1, 1), share=0.5)
    for seed, counts in enumerate(([40, 40], [40, 0, 40], [0, 40, 40, 40], [10, 10, 10, 10])):
        exam.take(some_examples(counts), drawing(seed))
    assert exam.kept.y.bincount().tolist() == [2, 2, 2, 2]


def test_a_task_of_which_nothing_enters_is_learned_whole():
    exam = Exam(4, (2, 1, 1), share=0.5)
    exam.take(some_examples([20]), drawing())
    assert len(exam.rows) == 4
    exam.take(some_examples([1]), drawing())  # half an example is none
    assert len(exam.rows) == 0
    assert exam.others(1) is None
    assert len(exam) == 4


# Without one


@pytest.mark.parametrize("method", METHODS_WITH_ONE)
def test_without_a_share_there_is_no_exam_and_nothing_is_different(method, monkeypatch):
    fields = {"method": method, "epochs": 1, "max_epochs": 1}
    training = trained(**fields, exam_share=0.0)
    learner = training.learner
    assert learner.asked is learner.buffer
    assert (len(learner.exam), learner.exam.capacity, learner.exam.kept.nbytes) == (0, 0, 0)
    assert "exam" not in training.state_dict()
    assert learner.buffer.capacity == 24
    # The same bits as where nobody has ever heard of one.
    monkeypatch.setattr(Exam, "take", lambda *given: None)
    monkeypatch.setattr(Exam, "others", lambda *given: None)
    add = Buffer.add
    monkeypatch.setattr(Buffer, "add", lambda self, *given, rows=None: add(self, *given[:5]))
    assert outcome(trained(**fields)) == outcome(training)


def asked_for(training, ask):
    """The images that the method is asked about."""
    found, predict = [], training.method.predict
    training.method.predict = lambda x: found.append(x) or predict(x)
    ask()
    del training.method.predict
    return known(torch.cat(found))


def test_probes_ask_the_exam_where_there_is_one_else_the_buffer():
    for share in (0.0, SHARE):
        training = trained(method="tfcsr", exam_share=share, epochs=1)
        learner = training.learner
        exam, buffer = known(learner.exam.kept.x[: len(learner.exam)]), known(learner.buffer.x[: len(learner.buffer)])
        assert asked_for(training, lambda learner=learner: learner.recall(3, 1)) == (exam or buffer)


def test_a_probe_asks_no_more_than_it_may():
    training = trained(method="tfcsr", exam_share=0.5, epochs=1)
    assert len(training.learner.asked) == 12
    spec = training.spec.replace(probe_size=5)
    training.use(spec)
    assert len(asked_for(training, lambda: training.learner.recall(3, 1))) == 5


def test_the_choice_is_among_all_classes_that_are_kept():
    training = trained(method="er", exam_share=0.1, epochs=1)  # an exam of 2: of two classes at most
    learner = training.learner
    assert len(learner.exam.kept.classes()) <= 2
    assert learner.classes_kept().tolist() == list(range(6))
    learner.buffer.remove(0)
    learner.exam.kept.remove(0)
    assert learner.classes_kept().tolist() == [1, 2, 3, 4, 5]


def test_after_each_task_the_exam_is_asked_of_each_class():
    counts = []

    def listener(event):
        if event["event"] == "task_finished":
            exam = training.learner.exam
            counts.append(exam.kept.y[: len(exam)].bincount(minlength=6).tolist())

    training = make_training((listener,), method="er", **FIELDS)
    training.run()
    result = Result.of(training, {}, {})
    assert result.recall_asked == counts
    assert [len(row) for row in result.recall_right] == [6, 6, 6]
    for asked, right in zip(result.recall_asked, result.recall_right, strict=True):
        assert all(0 <= r <= n for r, n in zip(right, asked, strict=True))
    found = training.learner.ask("recall/3")
    assert sum(result.recall_right[-1]) == round(found.overall * sum(result.recall_asked[-1]) / 100)
    assert trained(method="finetune").recall_asked == []


# Its draws


@pytest.mark.parametrize("fields", [{}, {"augment": "crop-flip", "buffer_fill": "after"}], ids=["plain", "augmented"])
def test_asking_the_exam_disturbs_nothing(fields):
    er, asked = (trained(method=m, **FIELDS, **fields) for m in ("er", "tfcsr"))
    assert asked.spec.replay_epochs == "all"
    assert len(asked.learner.probes) > 0
    assert er.weights_sha256() == asked.weights_sha256()
    assert er.weights_sha256() != trained(method="er", **(FIELDS | {"exam_share": 0.0}), **fields).weights_sha256()


def test_setting_it_aside_moves_no_generator(monkeypatch):
    """Nor does it matter what was drawn before: it has one of its own in each task."""
    drawn, take = [], Exam.take

    def noted(exam, examples, generator):
        named = {name: state.clone() for name, state in training.learner.generators.state_dict().items()}
        drawn.append(generator.get_state())
        take(exam, examples, generator)
        now = training.learner.generators.state_dict()
        assert all(torch.equal(state, now[name]) for name, state in named.items())

    monkeypatch.setattr(Exam, "take", noted)
    for method in ("er", "derpp"):
        training = make_training(method=method, exam_share=SHARE, epochs=1, augment="crop-flip")
        training.run()
    assert len(drawn) == 6
    assert all(torch.equal(one, other) for one, other in zip(drawn[:3], drawn[3:], strict=True))
    assert not torch.equal(drawn[0], drawn[1])


def test_methods_with_one_seed_have_the_same_exam():
    exams = [
        known(trained(method=m, exam_share=SHARE, epochs=1).learner.exam.kept.x)
        for m in ("er", "derpp", "tfcsr-distill")
    ]
    assert exams[0] == exams[1] == exams[2]


def test_two_seeds_have_two_exams():
    one, same, other = (trained(method="er", seed=seed, **FIELDS) for seed in (0, 0, 1))
    assert everything(one) == everything(same)
    assert known(one.learner.exam.kept.x) != known(other.learner.exam.kept.x)
    assert one.weights_sha256() != other.weights_sha256()


# Stopped and resumed


class Stopped(Exception):
    """From outside, between two epochs."""


@functools.cache
def unbroken(method):
    return everything(trained(method=method, **FIELDS))


@pytest.mark.parametrize(("task", "epoch"), [(1, 1), (2, 1), (3, 1)])
@pytest.mark.parametrize("method", ["er", "derpp", "tfcsr-distill"])
def test_stopped_within_a_task_and_resumed_it_ends_in_the_same_bits(method, task, epoch, tmp_path):
    checkpoints = Checkpoints(tmp_path, "a run", "cpu")
    stopped = make_training(method=method, **FIELDS)

    def stop_there():
        if (stopped.task_number, stopped.epoch) == (task, epoch):
            checkpoints.save(1, stopped.state_dict(), 0)
            raise Stopped

    with pytest.raises(Stopped):
        stopped.run(stop_there)
    resumed = make_training(method=method, **FIELDS)
    resumed.load_state_dict(checkpoints.load().state)
    assert torch.equal(resumed.learner.exam.rows, stopped.learner.exam.rows)
    assert len(resumed.learner.exam.rows) > 0
    resumed.run()
    assert everything(resumed) == unbroken(method)


def test_a_state_is_a_copy():
    exam = Exam(6, (2, 1, 1), share=0.5)
    exam.take(some_examples([9, 9]), drawing())
    kept = exam.state_dict()
    before = copy.deepcopy(kept)
    other = Exam(6, (2, 1, 1), share=0.5)
    other.load_state_dict(kept)
    for one in (exam, other):
        one.take(some_examples([0, 0, 30]), drawing(5))
    assert torch.equal(exam.kept.x, other.kept.x)
    assert torch.equal(exam.rows, other.rows)
    assert torch.equal(kept["rows"], before["rows"])
    assert torch.equal(kept["kept"]["x"], before["kept"]["x"])


# Data in a file


class Reading:
    """Examples of which only some may be looked at: it notes which."""

    device = torch.device("cpu")

    def __init__(self, x):
        self.x, self.read = x, []

    def __len__(self):
        return len(self.x)

    def __getitem__(self, rows):
        assert isinstance(rows, torch.Tensor), "the whole of it was asked for"
        self.read += rows.tolist()
        return self.x[rows]


def test_only_what_is_kept_is_read():
    examples = some_examples([300, 300])
    source, exam = Reading(examples.x), Exam(10, (2, 1, 1), share=0.2)
    exam.take(Examples(source, examples.y), drawing())
    assert sorted(source.read) == exam.rows.tolist()
    buffer, source = Buffer(10, (2, 1, 1)), Reading(examples.x)
    buffer.add(source, examples.y, drawing(), rows=exam.others(600))
    assert len(source.read) == 10
    assert not set(source.read) & set(exam.rows.tolist())


@settings(max_examples=40)
@given(count=st.integers(0, 30), capacity=st.integers(1, 12), before=st.integers(0, 15), seed=st.integers(0, 99))
def test_rows_that_are_offered_are_what_offering_them_alone_would_be(count, capacity, before, seed):
    first, examples = some_examples([before, 1]), some_examples([10, 10, 10])
    rows = torch.randperm(30, generator=drawing(seed))[:count]
    one, other = Buffer(capacity, (2, 1, 1)), Buffer(capacity, (2, 1, 1))
    for buffer in (one, other):
        buffer.add(first.x, first.y, drawing(seed))
    changes = one.add(examples.x, examples.y, drawing(seed + 1), rows=rows)
    alone = other.add(examples.x[rows], examples.y[rows], drawing(seed + 1))
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)
    assert (one.size, one.seen) == (other.size, other.seen)
    slots, found = changes.arrived()
    assert torch.equal(found, rows[alone.arrived()[1]])
    assert torch.equal(one.y[slots], examples.y[found])


@pytest.mark.parametrize("policy", ["reservoir", "herding"])
def test_a_folder_of_images_is_learned_to_the_same_bits_as_its_arrays(tmp_path, monkeypatch, policy):
    monkeypatch.setattr(staging, "BLOCK_BYTES", 11 * 64)
    x = np.random.default_rng(3).integers(0, 256, (50, 8, 8), dtype=np.uint8)
    y = np.repeat(np.array(["ant", "bee", "cow"]), (20, 13, 17))
    for number, (image, label) in enumerate(zip(x, y, strict=True)):
        place = tmp_path / "images" / label
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    fields = {"epochs": 2, "batch_size": 8, "device": "cpu", "threads": 1, "normalise": (0.5, 0.25)}
    fields |= {"buffer_capacity": 20, "exam_share": 0.3, "policy": policy}
    mapped, in_memory = (tfcsr.Learner(model="cnn", method="er", **fields) for _ in range(2))
    for _ in range(2):
        mapped.learn(tmp_path / "images")
        in_memory.learn(x[:, None], y)
    one, other = (learner.state_dict()["loop"] for learner in (mapped, in_memory))
    assert len(one["exam"]["rows"]) > 0
    for name in ("x", "y"):
        assert torch.equal(one["exam"]["kept"][name], other["exam"]["kept"][name])
        assert torch.equal(one["buffer"][name], other["buffer"][name])
    assert torch.equal(one["exam"]["rows"], other["exam"]["rows"])
    assert all(torch.equal(weight, other["model"][name]) for name, weight in one["model"].items())


# What is refused


def test_it_is_taken_from_the_current_task_only():
    with pytest.raises(SpecError, match="with new_task last, use 0") as refused:
        make_spec(method="er", new_task="last", exam_share=0.2)
    assert "\n" not in str(refused.value)
    make_spec(method="er", new_task="last", exam_share=0.0)


@pytest.mark.parametrize("share", [-0.1, 0.91, 1, "x", float("nan")])
def test_a_share_that_is_none(share):
    with pytest.raises(SpecError, match="exam_share") as refused:
        make_spec(method="er", exam_share=share)
    assert "\n" not in str(refused.value)
