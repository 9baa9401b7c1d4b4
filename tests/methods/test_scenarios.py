"""What a loss ranges over where the task is told; and the weight that ER gives to old and new by task."""

import math

import pytest
import torch
from tests.conftest import make_training, trained

from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch
from tfcsr.spec import RunSpec

OURS = [name for name in METHODS.names() if METHODS.ships(name)]
ORDER = (4, 1, 0, 5, 3, 2)
TASKS = ((4, 1), (0, 5), (3, 2))
ONLY = {"er-ace": ("class", "task"), "icarl": ("class", "task"), "tfcsr-distill": ("class", "task")}


@pytest.mark.parametrize("method", OURS)
def test_each_says_in_which_it_has_a_meaning(method):
    assert METHODS.get(method).scenarios == ONLY.get(method, ("class", "domain", "task"))
    if method in ONLY:
        with pytest.raises(SpecError, match=f"{method} has no meaning in scenario domain: use it with class or task"):
            RunSpec(method=method, scenario="domain")


@pytest.mark.parametrize(("method", "scenario"), [(m, s) for m in OURS for s in METHODS.get(m).scenarios])
def test_each_learns_there_and_the_same_bits_twice(method, scenario):
    fields = {"method": method, "scenario": scenario, "epochs": 2, "max_epochs": 2, "lr": 0.03}
    one, other = (trained(**fields) for _ in range(2))
    assert one.weights_sha256() == other.weights_sha256()
    assert one.accuracy_matrix[0][0] > 60
    assert one.weights_sha256() != trained(**fields | {"seed": 1}).weights_sha256()


def begun(method, task, **fields):
    """A run at the beginning of this task."""
    fields = {
        "class_order": ORDER,
        "model": "tiny-linear",
        "epochs": 1,
        "warmup_epochs": 0,
        "gate_data": "test",
    } | fields
    training = make_training(method=method, **fields)
    for number in range(1, task):
        data = training.tasks.task(number)
        for _ in training.learn(data, data.train):
            pass
        training.next_task()
    training.method.begin_task(training.tasks.task(task))
    training.method.mix(training.tasks.task(task), 1)
    return training


def loss_of(training, new, replayed, logits):
    y = torch.tensor([*new, *replayed])
    x = torch.randn((len(y), 1, 4, 4), generator=torch.Generator().manual_seed(2))
    stored = {"logits": torch.zeros(len(replayed), 6)}
    _, features = training.learner.with_features(training.model, x)
    return training.method.loss(Batch(x, y, len(new), stored, features=features), logits)


def some_logits(count):
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(3))


def cross_entropy(row, label, among):
    return math.log(sum(math.exp(row[c]) for c in among)) - row[label]


NEW, REPLAYED = (3, 2, 2), (4, 1, 0, 5)
OWN = {label: task for task in TASKS for label in task}


@pytest.mark.parametrize("method", ["finetune", "er", "tfcsr", "mgp", "er-ace", "derpp", "tfcsr-distill"])
def test_where_the_task_is_told_classes_compete_within_it(method):
    bare = {"alpha": 0.0, "beta": 1.0, "distill_weight": 0.0}
    training = begun(method, 3, scenario="task", **bare)
    logits = some_logits(7)
    rows = [cross_entropy(row, y, OWN[y]) for row, y in zip(logits.tolist(), (*NEW, *REPLAYED), strict=True)]
    new, old = sum(rows[:3]) / 3, sum(rows[3:]) / 4
    if method == "derpp":
        old = sum(rows[5:]) / 2  # of two draws, the second
    whole = {"finetune", "er", "tfcsr", "mgp"}
    expected = sum(rows) / 7 if method in whole else new + old
    assert loss_of(training, NEW, REPLAYED, logits).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", ["er", "er-ace", "icarl", "tfcsr-distill", "lwf"])
def test_where_the_task_is_told_new_examples_push_nobody_else_and_old_ones_not_the_new(method):
    training = begun(method, 3, scenario="task")
    logits = some_logits(7).requires_grad_()
    loss_of(training, NEW, REPLAYED, logits).backward()
    holds = method in ("icarl", "tfcsr-distill", "lwf")  # what was said of old classes
    pushed = logits.grad != 0
    assert pushed[:3, [3, 2]].all()
    assert bool(pushed[:3, [4, 1, 0, 5]].any()) == holds
    assert not pushed[3:, [3, 2]].any()
    assert pushed[3:5, [4, 1]].all()


@pytest.mark.parametrize("scenario", ["class", "domain", "task"])
def test_icarl_s_and_others_losses_are_as_they_were_where_it_is_not(scenario):
    """`within` is there to be asked; it changes nothing elsewhere."""
    training = make_training(method="er", scenario=scenario)
    logits, y = torch.randn(4, training.learner.classes), torch.tensor([0, 1, 1, 0])
    assert (training.method.within(logits, y) is logits) == (scenario != "task")


def test_distillation_is_within_each_past_task():
    training = begun("tfcsr-distill", 3, scenario="task", distill_scaling="none")
    plain = begun("tfcsr-distill", 3, scenario="task", distill_weight=0.0)
    T, logits = training.spec.temperature, some_logits(7)
    y = torch.tensor([*NEW, *REPLAYED])
    x = torch.randn((len(y), 1, 4, 4), generator=torch.Generator().manual_seed(2))
    before = training.method.old(x)
    each = []
    for task in TASKS[:2]:
        p, q = ((rows[:, list(task)] / T).log_softmax(dim=1) for rows in (before, logits))
        each.append((p.exp() * (p - q)).sum() / len(y))
    expected = 0.5 * T * T * sum(each) / 2
    found = loss_of(training, NEW, REPLAYED, logits) - loss_of(plain, NEW, REPLAYED, logits)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


# ER, weighted by tasks

WEIGHTED = {"er", "mgp", "tfcsr", "tfcsr-spaced", "lwf"}


@pytest.mark.parametrize("method", OURS)
def test_only_where_the_loss_is_er_s_own_can_it_be_weighted(method):
    assert ("weighting" in RunSpec(method=method).options()) == (method in WEIGHTED)
    assert len({option.name for option in METHODS.options(method)}) == len(METHODS.options(method))


@pytest.mark.parametrize("scenario", ["class", "task"])
@pytest.mark.parametrize("method", ["er", "mgp", "tfcsr"])
@pytest.mark.parametrize("task", [1, 2, 3])
def test_by_tasks_the_new_weigh_one_in_k_and_the_replayed_the_rest(method, task, scenario):
    training = begun(method, task, weighting="tasks", scenario=scenario)
    logits = some_logits(7)
    labels = (*NEW, *REPLAYED)
    rows = [
        cross_entropy(row, y, OWN[y] if scenario == "task" else range(6))
        for row, y in zip(logits.tolist(), labels, strict=True)
    ]
    expected = sum(rows[:3]) / 3 / task + (1 - 1 / task) * sum(rows[3:]) / 4
    assert loss_of(training, NEW, REPLAYED, logits).item() == pytest.approx(expected, rel=1e-5)
    # Where nothing is replayed the new are all there is.
    assert loss_of(training, NEW, (), logits[:3]).item() == pytest.approx(sum(rows[:3]) / 3, rel=1e-5)


def test_by_default_it_is_the_mean_over_examples_and_no_state_is_kept_for_more():
    training = begun("er", 3)
    logits = some_logits(7)
    rows = [cross_entropy(row, y, range(6)) for row, y in zip(logits.tolist(), (*NEW, *REPLAYED), strict=True)]
    assert loss_of(training, NEW, REPLAYED, logits).item() == pytest.approx(sum(rows) / 7, rel=1e-5)
    assert training.method.state_dict() == {}
    assert begun("er", 3, weighting="tasks").method.state_dict()["task_number"].item() == 3


def test_the_task_s_number_is_changed_where_it_lies():
    training = begun("er", 1, weighting="tasks")
    place = training.method.task_number.data_ptr()
    training.method.begin_task(training.tasks.task(2))
    assert training.method.task_number.data_ptr() == place
    assert training.method.task_number.item() == 2
