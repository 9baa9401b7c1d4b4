"""A learner on a GPU: recorded steps follow a head that grows, and examples may lie in host memory or in a file."""

import numpy as np
import pytest
import torch

from tfcsr import Learner
from tfcsr.learner import instalments
from tfcsr.methods import METHODS
from tfcsr.training import loop, staging
from tfcsr.training.step import PlainSteps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: torch.cuda.is_available() is false"),
]
OURS = [name for name in METHODS.names() if METHODS.ships(name)]
SETTINGS = {"device": "cuda", "precision": "fp32", "deterministic": True, "epochs": 5, "lr": 1e-4}


def rows(labels, each=96):
    """Images of 12x12 pixels; class k has a bright row k."""
    rng = np.random.default_rng(len(labels))
    y = np.repeat(labels, each)
    x = rng.integers(0, 120, (len(y), 1, 12, 12), dtype=np.uint8)
    x[np.arange(len(y)), 0, y] += 120
    order = rng.permutation(len(y))
    return x[order], y[order]


FIRST, SECOND = rows([3, 4]), rows([1, 4, 7])


def taught(method="er", **more):
    learner = Learner(method=method, seed=1, **SETTINGS | more)
    for x, y in (FIRST, SECOND):
        learner.learn(x, y)
    return learner


def assert_same(one, other, **tolerance):
    for a, b in zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("method", OURS)
def test_recorded_steps_follow_a_head_that_grows(method, monkeypatch):
    captured = taught(method)
    monkeypatch.setattr(loop, "CapturedSteps", lambda step, *_, **__: PlainSteps(step))
    assert_same(captured, taught(method), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["tfcsr", "ewc", "icarl"])
def test_examples_in_host_memory_give_the_same_bits(method, monkeypatch):
    on_device = taught(method)
    monkeypatch.setattr(instalments, "LARGEST_SHARE_OF_DEVICE", 0.0)
    monkeypatch.setattr(staging, "BLOCK_BYTES", 20_000)  # several blocks in an epoch
    assert_same(on_device, taught(method), rtol=0, atol=0)


@pytest.mark.parametrize("method", OURS)
def test_what_is_saved_goes_on_to_the_same_bits(method, tmp_path):
    learner = Learner(method=method, seed=1, **SETTINGS)
    learner.learn(*FIRST)
    learner.save(tmp_path / "kept")
    again = Learner.load(tmp_path / "kept")
    learner.learn(*SECOND)
    again.learn(*SECOND, resume=False)
    assert_same(learner, again, rtol=0, atol=0)
    assert learner.classes == again.classes == [int(c) for c in dict.fromkeys([*FIRST[1], *SECOND[1]])]


def test_a_transform_and_precision_of_its_own():
    learner = taught(transform=lambda x: x.flip(-1), precision="bf16", deterministic=False)
    assert learner.evaluate(*SECOND).accuracy > 20
    assert learner.predict_proba(SECOND[0][:5]).shape == (5, 4)
