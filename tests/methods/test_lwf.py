"""LwF: its loss against the formula written out, in each scenario; and what it holds back."""

import math

import pytest
import torch
from tests.conftest import make_training, trained

from tfcsr.methods.base import Batch
from tfcsr.methods.distillation import divergence
from tfcsr.models.predict import mode

ORDER = (4, 1, 0, 5, 3, 2)  # tasks of (4, 1), (0, 5) and (3, 2)
TASKS = ((4, 1), (0, 5), (3, 2))


def begun(task, **fields):
    """A run that has just begun this task, with weights that are no longer those it began with."""
    more = {"epochs": 1, "class_order": ORDER, "model": "tiny-linear"} | fields
    training = make_training(method="lwf", **more)
    for number in range(1, task):
        data = training.tasks.task(number)
        for _ in training.learn(data, data.train):
            pass
        training.next_task()
    training.method.begin_task(training.tasks.task(task))
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in training.model.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=draw)
    return training


def a_batch(training, labels):
    x = torch.randn((len(labels), 1, 4, 4), generator=torch.Generator().manual_seed(2))
    return Batch(x, torch.tensor(labels), len(labels), {}), training.model(x)


def shares(scores, among, temperature=1.0):
    total = sum(math.exp(scores[c] / temperature) for c in among)
    return {c: math.exp(scores[c] / temperature) / total for c in among}


def cross_entropy(rows, labels, among):
    return sum(-math.log(shares(row, among)[y]) for row, y in zip(rows, labels, strict=True)) / len(rows)


def soft(before, now, old, seen, T):
    """The soft cross-entropy as in van de Ven's code, where what had no share before is to have none now; less that of
    the answers before with themselves, which no weight can change.
    """
    total = 0.0
    for was, is_ in zip(before, now, strict=True):
        p, q = shares(was, old, T), shares(is_, seen, T)
        total += sum(-p[c] * math.log(q[c]) + p[c] * math.log(p[c]) for c in old)
    return total / len(now)


@pytest.mark.parametrize("fields", [{}, {"distill_weight": 3.0, "temperature": 0.7}], ids=str)
@pytest.mark.parametrize("weighting", ["constant", "each", "tasks"])
@pytest.mark.parametrize("scenario", ["class", "domain", "task"])
def test_the_loss_is_the_formula(scenario, weighting, fields):
    training = begun(3, scenario=scenario, weighting=weighting, **fields)
    T, w = training.spec.temperature, training.spec.distill_weight
    labels = [0, 1, 1, 0] if scenario == "domain" else [3, 2, 2, 3]
    batch, logits = a_batch(training, labels)
    now, before = logits.tolist(), training.method.old(batch.x).tolist()
    if scenario == "task":
        new = cross_entropy(now, labels, TASKS[2])
        old = sum(soft(before, now, task, task, T) for task in TASKS[:2]) / 2
    elif scenario == "domain":
        new, old = cross_entropy(now, labels, (0, 1)), soft(before, now, (0, 1), (0, 1), T)
    else:
        new, old = cross_entropy(now, labels, range(6)), soft(before, now, (0, 1, 4, 5), range(6), T)
    expected = {
        "constant": new + w * old,
        "each": new + w * old * (1 if scenario == "class" else 2),
        "tasks": new / 3 + 2 / 3 * w * old,
    }
    assert training.method.loss(batch, logits).item() == pytest.approx(expected[weighting], rel=1e-5)


@pytest.mark.parametrize("weighting", ["constant", "each", "tasks"])
@pytest.mark.parametrize("scenario", ["class", "domain", "task"])
def test_the_first_task_is_learned_with_nothing_else(scenario, weighting):
    plain = trained(method="finetune", scenario=scenario, tasks=1 if scenario != "domain" else 3, epochs=1)
    lwf = make_training(method="lwf", scenario=scenario, tasks=plain.spec.tasks, epochs=1, weighting=weighting)
    task = lwf.tasks.task(1)
    for _ in lwf.learn(task, task.train):
        pass
    assert lwf.method.old is None
    other = make_training(method="finetune", scenario=scenario, tasks=plain.spec.tasks, epochs=1)
    for _ in other.learn(task, task.train):
        pass
    assert lwf.weights_sha256() == other.weights_sha256()


def test_without_weight_it_is_plain_training_and_keeps_no_copy():
    lwf = trained(method="lwf", distill_weight=0.0, epochs=1)
    assert lwf.method.old is None
    assert lwf.weights_sha256() == trained(method="finetune", epochs=1).weights_sha256()


@pytest.mark.parametrize("scenario", ["class", "domain", "task"])
def test_it_keeps_no_examples_and_its_network_before_the_task_does_not_follow(scenario):
    training = begun(2, scenario=scenario)
    assert len(training.learner.buffer) == 0
    before = {name: weight.clone() for name, weight in training.method.old.state_dict().items()}
    batch, logits = a_batch(training, [0, 1] if scenario == "domain" else [0, 5])
    training.method.loss(batch, logits).backward()
    assert all(parameter.grad is None for parameter in training.method.old.parameters())
    after = training.method.old.state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


def test_in_scenario_task_no_class_of_another_task_is_pushed():
    training = begun(2, scenario="task")
    batch, logits = a_batch(training, [0, 5, 5])
    logits.retain_grad()
    training.method.loss(batch, logits).backward()
    assert (logits.grad.abs().sum(dim=0) > 0).tolist() == [True, True, False, False, True, True]
    # Within a task what one class gains the other loses.
    for task in TASKS[:2]:
        assert logits.grad[:, task].sum(dim=1).abs().max() < 1e-6


@pytest.mark.parametrize("scenario", ["domain", "task"])
def test_old_answers_are_held(scenario):
    def moved(weight):
        run = trained(method="lwf", scenario=scenario, distill_weight=weight, epochs=4, lr=1e-2)
        x = run.learner.views.normalised(run.tasks.task(3).train.x)
        with torch.no_grad(), mode(run.model, False):
            return divergence(run.method.old(x), run.model(x), run.method.past, 2.0, run.learner.task_of).item()

    assert moved(10.0) < 0.5 * moved(1e-6)


# The divergence


def some_logits(scale=3.0, classes=7):
    draw = torch.Generator().manual_seed(4)
    return (scale * torch.randn(5, classes, generator=draw) for _ in range(2))


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_within_tasks_it_is_the_mean_of_that_over_each(scale):
    before, now = some_logits(scale)
    task_of, among = torch.tensor([1, 2, 1, 3, 2, 3, 1]), torch.tensor([True, True, True, True, True, False, True])
    each = [divergence(before, now, (task_of == task) & among, 2.0) for task in (1, 2, 3)]
    found = divergence(before, now, among, 2.0, task_of)
    torch.testing.assert_close(found, sum(each) / 3, rtol=1e-4, atol=1e-6)


def test_within_tasks_it_has_gradients_where_one_task_is_far_above_another():
    before, now = some_logits()
    now = (now + torch.tensor([600.0, 600.0, 0, 0, 0, 0, 0])).requires_grad_()
    task_of, among = torch.tensor([1, 1, 2, 2, 2, 3, 3]), torch.tensor([True] * 5 + [False] * 2)
    divergence(before, now, among, 1.0, task_of).backward()
    together = now.detach().clone().requires_grad_()
    both = sum(divergence(before, together, task_of == task, 1.0) for task in (1, 2)) / 2
    both.backward()
    torch.testing.assert_close(now.grad, together.grad, rtol=1e-4, atol=1e-7)
    assert now.grad[:, 5:].abs().max() == 0


@pytest.mark.parametrize("task_of", [None, torch.tensor([1, 1, 2, 2, 2, 3, 3])], ids=["together", "within tasks"])
def test_a_network_that_has_not_moved_has_lost_nothing(task_of):
    before, _ = some_logits()
    among = torch.tensor([True] * 5 + [False] * 2)
    assert abs(divergence(before, before.clone(), among, 2.0, task_of).item()) < 1e-7
