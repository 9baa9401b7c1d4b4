"""The ingredients of others that `tfcsr-distill` was tried with: each is what it is called, and nothing else."""

import importlib

import pytest
import torch

from tfcsr.methods import METHODS
from tfcsr.models.head import find_head
from tfcsr.testing import METHOD_CHECKS, outcome, trained

OURS = "tfcsr-distill"
# The option by which each has no effect, with what it took away given back.
WITHOUT = {
    "bfp": {"projected_weight": 0.0, "feature_weight": 1.0},
    "momentum": {"teacher_rate": 0.0},
    "logits": {"alpha": 0.0},
    "aligned": {"align": 0.0},
}


@pytest.fixture(scope="module", autouse=True)
def plugin():
    from benchmarks import ingredients

    importlib.reload(ingredients)  # another test module may have had it, and taken its methods away
    yield ingredients
    for name in WITHOUT:
        METHODS.remove(name)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", WITHOUT)
def test_it_keeps_the_contract(method, check):
    check(method)


@pytest.mark.parametrize("method", WITHOUT)
def test_it_adds_one_thing_alone(method):
    whole, without = outcome(trained(method=OURS)), outcome(trained(method=method, **WITHOUT[method]))
    assert without[:2] == whole[:2]  # the same weights, bit for bit, and answers
    assert outcome(trained(method=method))[0] != whole[0]


def test_features_may_turn_together():
    """What a rotation does to all features costs nothing once the projection has learned it; cosines would mind."""
    method = trained(method="bfp").learner.method
    size = len(method.projection)
    before = torch.randn(400, size, generator=torch.Generator().manual_seed(0))
    turned = before @ torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(1)))[0]
    method.projection, method.velocity = torch.eye(size), torch.zeros(size, size)
    costs = []
    for _ in range(200):
        gap = turned @ method.projection.requires_grad_() - before
        cost = (gap.norm(dim=1) / before.norm(dim=1)).mean()
        cost.backward()
        method.after_step()
        costs.append(cost.item())
    assert costs[0] > 1 > 0.1 > costs[-1]


def test_the_old_network_follows_the_new_one():
    """At rate 1 it is the new one after every step: nothing is held."""
    followed = trained(method="momentum", teacher_rate=1.0).learner
    old, now = followed.method.old.state_dict(), followed.model.state_dict()
    assert all(torch.equal(old[name], now[name]) for name in now if now[name].is_floating_point())


def test_later_classes_are_kept_below_the_own():
    learner = trained(method="logits", epochs=4).learner
    buffer, stored = learner.buffer, learner.buffer.fields["logits"]
    held, y = stored[: len(buffer)], buffer.y[: len(buffer)]
    assert not held[:, learner.method.known].isnan().any()
    own = held.gather(1, y[:, None])[:, 0]
    newest = learner.method.arriving
    others = torch.where(newest[y][:, None], learner.method.past, newest)
    top = held.masked_fill(~others, -torch.inf).amax(dim=1)
    sure = own > 0
    assert sure.any()
    assert (top[sure] <= own[sure]).all()
    # What it said of its own and earlier classes when it was new is what an old example still has.
    now = learner.logits(buffer.examples(torch.arange(len(buffer))))
    kept = held[newest[y]][:, newest] == now[newest[y]][:, newest]
    assert kept.all()
    assert (held[~newest[y]] != now[~newest[y]])[:, ~newest].any()


def test_lengths_are_aligned():
    learner = trained(method="aligned").learner
    weight, method = find_head(learner.model, learner.head).weight.detach(), learner.method
    assert weight[method.past].norm(dim=1).mean() == pytest.approx(weight[method.arriving].norm(dim=1).mean().item())
