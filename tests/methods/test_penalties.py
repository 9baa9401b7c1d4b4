"""EWC and SI against values worked out by hand on a model with two weights."""

import numpy as np
import pytest
import torch
from tests.conftest import make_spec, make_training
from torch import nn

from tfcsr.buffer.buffer import Buffer
from tfcsr.data.dataset import Dataset
from tfcsr.data.tasks import Examples, Task
from tfcsr.data.views import Views
from tfcsr.generators import Generators
from tfcsr.methods.ewc import ElasticWeightConsolidation
from tfcsr.methods.learner import Learner
from tfcsr.methods.si import SynapticIntelligence


def learner_with(model: nn.Module, **fields: object) -> Learner:
    one = np.ones((2, 1, 1, 1), np.uint8)
    labels = np.arange(2)
    dataset = Dataset("bare", one, labels, one, labels, ("a", "b"), 1.0, (0.0,), (1.0,))
    return Learner(
        spec=make_spec(**fields),
        model=model,
        views=Views.of(dataset, "cpu"),
        buffer=Buffer(0, (1, 1, 1)),
        generators=Generators(0),
        emit=lambda kind, **values: None,
        classes=2,
    )


def two_weights(*values: float) -> nn.Sequential:
    """Logits (w0 x, w1 x)."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False))
    set_weights(model, *values)
    return model


def set_weights(model: nn.Sequential, *values: float) -> None:
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor(values).reshape(2, 1))


def task_of(x: list[int], y: list[int]) -> Task:
    examples = Examples(torch.tensor(x, dtype=torch.uint8).reshape(-1, 1, 1, 1), torch.tensor(y))
    return Task(1, (0, 1), examples, Examples(examples.x[:0], examples.y[:0]), examples)


def test_ewc_fisher_penalty_and_gradient_after_one_task():
    model = two_weights(0.0, 0.0)
    learner = learner_with(model, method="ewc", batch_size=2, ewc_lambda=10.0, fisher="batch")
    method = ElasticWeightConsolidation(learner)
    assert method.penalty().item() == 0.0
    # At zero weights both classes have probability 1/2, so an example's gradient is (±x/2, ∓x/2).
    # Batch 1 (x 2 and 4, class 0): mean -1.5 and 1.5. Batch 2 (x 2 and 6, class 1): 2 and -2.
    # Squared and averaged over the two batches: (2.25 + 4) / 2 = 3.125 for both weights.
    method.end_task(task_of([2, 4, 2, 6], [0, 0, 1, 1]))
    assert method.curvature[0].flatten().tolist() == [3.125, 3.125]
    set_weights(model, 0.1, -0.2)
    penalty = method.penalty()
    assert penalty.item() == pytest.approx(10 * 3.125 * (0.01 + 0.04))
    penalty.backward()
    # 2 λ F (θ - θ*): no factor 1/2 in the penalty.
    assert model[1].weight.grad.flatten().tolist() == pytest.approx([2 * 10 * 3.125 * 0.1, 2 * 10 * 3.125 * -0.2])


@pytest.mark.parametrize(
    ("weights", "fisher", "expected"),
    [
        # Squared and averaged over the four examples: (1 + 4 + 1 + 9) / 4, whatever the label.
        ((0.0, 0.0), "examples", 3.75),
        ((0.0, 0.0), "exact", 3.75),
        ((0.0, np.log(3)), "examples", None),
        ((0.0, np.log(3)), "exact", None),
    ],
)
def test_ewc_fisher_over_examples(weights, fisher, expected):
    x, y = [2, 4, 2, 6], [0, 0, 1, 1]
    model = two_weights(*weights)
    method = ElasticWeightConsolidation(learner_with(model, method="ewc", batch_size=2, fisher=fisher))
    task = task_of(x, y)
    method.begin_task(task)
    method.end_task(task)
    if expected is None:
        # Logits (0, x ln 3): p of class 0 is 1 / (1 + 3^x).
        p = [1 / (1 + 3**value) for value in x]
        right = [value**2 * (q if label else 1 - q) ** 2 for value, q, label in zip(x, p, y, strict=True)]
        mean = [value**2 * (q * (1 - q) ** 2 + (1 - q) * q**2) for value, q in zip(x, p, strict=True)]
        expected = sum(right if fisher == "examples" else mean) / 4
    assert method.curvature[0].flatten().tolist() == pytest.approx([expected, expected], rel=1e-4)


def test_ewc_running_sums_equal_one_term_per_task(monkeypatch):
    model = two_weights(0.0, 0.0)
    method = ElasticWeightConsolidation(learner_with(model, method="ewc", ewc_lambda=3.0))
    fishers = [(0.5, 0.0), (2.0, 1.0), (0.0, 4.0)]
    anchors = [(0.3, -0.1), (0.5, 0.2), (-0.4, 0.6)]
    for fisher, anchor in zip(fishers, anchors, strict=True):
        set_weights(model, *anchor)
        monkeypatch.setattr(method, "_fisher", lambda task, f=fisher: [torch.tensor(f).reshape(2, 1)])
        method.end_task(task_of([1], [0]))
    theta = (0.7, -0.8)
    set_weights(model, *theta)
    penalty = method.penalty()
    by_hand = 3.0 * sum(
        f * (t - a) ** 2
        for fs, ans in zip(fishers, anchors, strict=True)
        for f, a, t in zip(fs, ans, theta, strict=True)
    )
    assert penalty.item() == pytest.approx(by_hand, rel=1e-6)
    penalty.backward()
    slopes = [
        2 * 3.0 * sum(fs[i] * (theta[i] - ans[i]) for fs, ans in zip(fishers, anchors, strict=True)) for i in (0, 1)
    ]
    assert model[1].weight.grad.flatten().tolist() == pytest.approx(slopes, rel=1e-6)


def test_ewc_measures_fisher_in_eval_mode_and_leaves_train_mode():
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2), nn.BatchNorm1d(2)).train()
    before = model[2].running_mean.clone()
    ElasticWeightConsolidation(learner_with(model, method="ewc")).end_task(task_of([1, 2, 3], [0, 1, 0]))
    assert torch.equal(before, model[2].running_mean)
    assert model.training


def walk(
    method: SynapticIntelligence, model: nn.Sequential, steps: list[tuple[tuple[float, float], tuple[float, float]]]
):
    """Steps as (gradient, weights after it)."""
    for gradient, after in steps:
        model[1].weight.grad = torch.tensor(gradient).reshape(2, 1)
        set_weights(model, *after)
        method.after_step()


def test_si_importance_penalty_and_gradient_after_one_task():
    model = two_weights(1.0, 1.0)
    method = SynapticIntelligence(learner_with(model, method="si", protocol="paper", si_lambda=10.0))
    walk(method, model, [((0.0005, -0.3), (0.9, 0.9)), ((0.0002, -0.1), (0.7, 0.8))])
    # path: 0.0005 * -0.1 + 0.0002 * -0.2 = -9e-5, and -0.3 * -0.1 + -0.1 * -0.1 = 0.04
    assert method.path[0].flatten().tolist() == pytest.approx([-9e-5, 0.04])
    method.end_task(task_of([1], [0]))
    # total: -9e-5 / (0.3² + 1e-7) and 0.04 / (0.2² + 1e-7); importance is its negative, at most 0.001, no lower bound
    first, second = 9e-5 / (0.09 + 1e-7), -0.04 / (0.04 + 1e-7)
    assert first < 0.001
    assert method.importance[0].flatten().tolist() == pytest.approx([first, second], rel=1e-5)
    set_weights(model, 0.5, 0.9)
    model.zero_grad()
    penalty = method.penalty()
    assert penalty.item() == pytest.approx(10 / 2 * (first * 0.2**2 + second * 0.1**2), rel=1e-4)
    penalty.backward()
    assert model[1].weight.grad.flatten().tolist() == pytest.approx([10 * first * -0.2, 10 * second * 0.1], rel=1e-4)


def test_si_clips_importance_from_above_and_adds_tasks_up():
    model = two_weights(0.0, 0.0)
    method = SynapticIntelligence(learner_with(model, method="si"))
    walk(method, model, [((-1.0, -1e-4), (0.5, 0.5))])
    method.end_task(task_of([1], [0]))
    assert method.importance[0].flatten().tolist() == pytest.approx([0.001, 5e-5 / (0.25 + 1e-7)])
    assert method.path[0].flatten().tolist() == [0.0, 0.0]
    # The second task starts its path and its distance anew, from the new anchor; the totals add up.
    walk(method, model, [((0.0, -1e-4), (0.5, 1.0))])
    method.end_task(task_of([1], [0]))
    assert method.importance[0].flatten().tolist() == pytest.approx([0.001, 2 * 5e-5 / (0.25 + 1e-7)])


def deep() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2))


@pytest.mark.parametrize("strength", [0.3, 20.0])
def test_si_is_that_of_van_de_ven_with_these_options(strength):
    """c Σ ω (θ - θ*)², without a factor 1/2 and without bounds; W -= g (θ - θ before the step), where g is of the whole
    loss; ω += W / ((θ - θ*)² + ξ).
    """
    options = {"si_lowest": "none", "si_highest": 0.0, "si_damping": 0.1, "si_lambda": 2 * strength}
    ours, theirs = deep(), deep()
    method = SynapticIntelligence(learner_with(ours, method="si", **options))
    omega = [torch.zeros_like(p) for p in theirs.parameters()]
    star = [p.detach().clone() for p in theirs.parameters()]
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.05) for model in (ours, theirs)]
    draw = torch.Generator().manual_seed(6)
    for number in range(3):
        W = [torch.zeros_like(p) for p in theirs.parameters()]
        for _ in range(12):
            x = torch.randn(8, 1, generator=draw)
            y = (x[:, 0] > number - 1).long()
            before = [p.detach().clone() for p in theirs.parameters()]
            penalties = (
                method.penalty(),
                strength
                * sum((w * (p - s) ** 2).sum() for w, p, s in zip(omega, theirs.parameters(), star, strict=True)),
            )
            for model, optimizer, penalty in zip((ours, theirs), optimizers, penalties, strict=True):
                optimizer.zero_grad()
                (nn.functional.cross_entropy(model(x), y) + penalty).backward()
                optimizer.step()
            method.after_step()
            for w, p, b in zip(W, theirs.parameters(), before, strict=True):
                w -= p.grad * (p.detach() - b)
        method.end_task(task_of([1], [0]))
        for w, gathered, p, s in zip(omega, W, theirs.parameters(), star, strict=True):
            w += gathered / ((p.detach() - s) ** 2 + 0.1)
            s.copy_(p.detach())
        for one, other in zip(method.importance, omega, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert max(float(w.max()) for w in omega) > 0.001


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [0.001, 0.0]),
        ({"si_highest": 0.01}, [0.01, 0.0]),
        ({"si_highest": 0.0}, [2.0, 0.0]),
        ({"si_highest": 0.0, "si_lowest": "none"}, [2.0, -2.0]),
        ({"si_highest": 0.0, "si_lowest": "none", "si_damping": 0.25}, [1.0, -1.0]),
    ],
    ids=str,
)
def test_si_bounds_and_damping(fields, expected):
    model = two_weights(0.0, 0.0)
    method = SynapticIntelligence(learner_with(model, method="si", **fields))
    walk(method, model, [((-1.0, 1.0), (0.5, 0.5))])
    method.end_task(task_of([1], [0]))
    assert method.importance[0].flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_si_leaves_batch_norm_out():
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    shapes = [tuple(p.shape) for p in SynapticIntelligence(learner_with(model, method="si")).parameters()]
    assert shapes == [(2, 1), (2,), (2, 2), (2,)]


@pytest.mark.parametrize("method", ["ewc", "si"])
def test_the_penalty_is_at_work_from_the_second_task_on(method):
    training = make_training(method=method)
    seen: dict[int, list[float]] = {1: [], 2: [], 3: []}
    penalty = training.method.penalty

    def record():
        value = penalty()
        seen[training.task_number].append(0.0 if value is None else value.item())
        return value

    training.method.penalty = record
    training.run()
    assert set(seen[1]) == {0.0}
    assert max(map(abs, seen[2])) > 1e-6
    assert max(map(abs, seen[3])) > 1e-6


@pytest.mark.parametrize(("method", "weight"), [("ewc", "ewc_lambda"), ("si", "si_lambda")])
def test_a_heavier_penalty_holds_the_weights_back(method, weight):
    def moved(value):
        training = make_training(method=method, epochs=10, **{weight: value})
        anchors = []
        end_task = training._end_task

        def keep(task, logits):
            anchors.append([p.detach().clone() for p in training.model.parameters()])
            end_task(task, logits)

        training._end_task = keep
        training.run()
        return sum(float((a - b).square().sum()) for a, b in zip(anchors[0], anchors[1], strict=True))

    assert moved(1e6) < 0.9 * moved(0.0)
