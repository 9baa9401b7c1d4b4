import pytest
import torch
from tests.conftest import make_training

from tfcsr.methods.base import Mix
from tfcsr.training.batches import compose, plan_epoch


def prepared(**fields):
    training = make_training(method="er", **fields)
    task = training.tasks.task(1)
    training.method.begin_task(task)
    return training.learner, task.train


def first_batch(learner, data, plan):
    row = (None if t is None else t[0] for t in plan.positions())
    return compose(data.x, data.y, learner.buffer.x, learner.buffer.y, learner.views.mean, learner.views.std, *row)


def test_a_plan_uses_each_new_example_once():
    learner, data = prepared()
    (batches,) = plan_epoch(learner, len(data), Mix(new=8, replay=8, stride=8))
    assert batches.new.flatten().sort().values.tolist() == list(range(80))
    assert batches.replay.shape == (10, 8)
    assert all(len(set(row)) == 8 for row in batches.replay.tolist())
    assert batches.samples == 160


def test_the_papers_plan_leaves_half_of_them_out():
    learner, _ = prepared()
    plan = plan_epoch(learner, 70, Mix(new=8, replay=8, stride=16))
    assert [tuple(batches.new.shape) for batches in plan] == [(4, 8), (1, 6)]  # the last 6 are all taken
    assert len({i for batches in plan for i in batches.new.flatten().tolist()}) == 38
    (whole, last) = plan_epoch(learner, 75, Mix(new=8, replay=8, stride=16))
    assert (len(whole), last.shape) == (4, (8, 8))  # the last 11 give their first 8


def test_every_epoch_is_shuffled_anew():
    learner, _ = prepared()
    mix = Mix(new=8, replay=8, stride=8)
    (first,), (second,) = plan_epoch(learner, 80, mix), plan_epoch(learner, 80, mix)
    assert first.new.tolist() != second.new.tolist()
    assert first.replay.tolist() != second.replay.tolist()


def test_batches_are_new_then_old_normalised():
    learner, data = prepared()
    (plan,) = plan_epoch(learner, len(data), Mix(new=8, replay=4, stride=8))
    x, y = first_batch(learner, data, plan)
    assert x.shape == (12, 1, 4, 4)
    assert torch.equal(y, torch.cat([data.y[plan.new[0]], learner.buffer.y[plan.replay[0]]]))
    pixels = torch.cat([data.x[plan.new[0]], learner.buffer.x[plan.replay[0]]]).float()
    torch.testing.assert_close(x, (pixels / 255 - 0.2) / 0.25)


@pytest.mark.parametrize(("view", "replayed"), [("fresh", True), ("frozen", False)])
def test_what_is_augmented(view, replayed):
    learner, data = prepared(augment="crop-flip", replay_view=view)
    (plan,) = plan_epoch(learner, len(data), Mix(new=8, replay=8, stride=8))
    assert plan.new_views is not None
    assert plan.new_views.shape == (10, 8, 3)
    assert (plan.replay_views is not None) is replayed
    x, _ = first_batch(learner, data, plan)
    plain = learner.views.normalised(torch.cat([data.x[plan.new[0]], learner.buffer.x[plan.replay[0]]]))
    assert not torch.equal(x[:8], plain[:8])
    assert torch.equal(x[8:], plain[8:]) is not replayed


def test_methods_with_one_seed_see_the_same_order():
    def order(method):
        training = make_training(method=method)
        return plan_epoch(training.learner, 80, Mix(new=16, replay=0, stride=16))[0].new.tolist()

    assert order("finetune") == order("ewc") == order("er")


@pytest.mark.parametrize(
    ("examples", "shapes"),
    [(80, [(5, 16)]), (81, [(4, 16), (1, 17)]), (82, [(5, 16), (1, 2)]), (17, [(1, 17)]), (1, [(1, 1)])],
)
def test_a_single_left_over_joins_the_batch_before(examples, shapes):
    learner, _ = prepared()
    plan = plan_epoch(learner, examples, Mix(new=16, replay=0, stride=16))
    assert [tuple(batches.new.shape) for batches in plan] == shapes
    assert sorted(i for batches in plan for i in batches.new.flatten().tolist()) == list(range(examples))
