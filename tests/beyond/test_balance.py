"""What the balanced loss is worth, on runs whose answer is known."""

import pytest

from tests.beyond.invented import put, study_of
from tfcsr.beyond.arms import ARMS, BALANCED, LESS_REPLAY, OURS, balanced
from tfcsr.beyond.balance import balance, less_replay


def test_each_differs_from_its_own_in_the_loss_alone():
    for arm in BALANCED:
        own, other = (ARMS[name].spec(0).to_dict() for name in (arm, balanced(arm)))
        changed = {field: (own[field], other[field]) for field in own if own[field] != other[field]}
        assert changed == {"new_classes": ("own", "balanced")}, arm
        assert (ARMS[arm].seeds, ARMS[arm].times) == (ARMS[balanced(arm)].seeds, ARMS[balanced(arm)].times)


def test_less_and_more_replay_differ_in_that_alone():
    assert {*LESS_REPLAY, *LESS_REPLAY.values()} <= BALANCED.keys()
    for less, more in LESS_REPLAY.items():
        one, other = (ARMS[balanced(name)].spec(0).to_dict() for name in (less, more))
        changed = {field for field in one if one[field] != other[field]}
        assert changed == {"replay_epochs"}, less


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [((1.0, 1.4, 1.2), "better"), ((-1.0, -1.4, -1.2), "worse"), ((-1.0, 1.4, 0.2), "open")],
)
def test_it_is_held_against_its_own_seed_by_seed(gains, verdict):
    study, arm = study_of(seeds=3), f"elsewhere/cnn/{OURS}"
    put(study, arm, {0: 30.0, 1: 32.0, 2: 34.0})
    put(study, balanced(arm), {seed: 30.0 + 2 * seed + gain for seed, gain in enumerate(gains)})
    found = {one.arm: one for one in balance(study)}
    assert found.keys() == BALANCED.keys()
    one = found[arm]
    assert one.own.accuracy.mean == pytest.approx(32.0)
    assert one.balanced.difference.mean == pytest.approx(sum(gains) / 3)
    assert one.along.mean == pytest.approx(sum(gains) / 3)  # invented curves are as far apart all along
    assert {"better": one.balanced.difference.low > 0, "worse": one.balanced.difference.high < 0}.get(verdict, True)
    assert all(other.balanced.n == 0 and other.along is None for name, other in found.items() if name != arm)


def test_the_saving_is_judged_by_the_balanced_runs():
    study, less = study_of(seeds=3), f"elsewhere/cnn/{OURS}"
    more = LESS_REPLAY[less]
    put(study, less, {0: 30.0, 1: 32.0, 2: 34.0})
    put(study, more, {0: 29.0, 1: 31.1, 2: 32.9})
    put(study, balanced(less), {0: 31.0, 1: 33.0, 2: 35.0})
    put(study, balanced(more), {0: 33.0, 1: 35.1, 2: 36.9})
    one = {found.arm: found for found in less_replay(study)}[less]
    assert (one.own.mean, one.balanced.mean) == (pytest.approx(1.0), pytest.approx(-2.0))
    assert one.verdict == "loss"
