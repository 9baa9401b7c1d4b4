"""Verdicts at their borders."""

import pytest

from tfcsr.beyond.verdicts import change_verdict, gain_verdict, loss_verdict, reached
from tfcsr.experiments.statistics import Estimate, estimate


def between(low, high, n=5):
    return Estimate((low + high) / 2, low, high, n)


@pytest.mark.parametrize(
    ("low", "high", "loss", "gain", "change"),
    [
        (-0.49, 3.0, "no loss", "open", "open"),
        (-0.5, 3.0, "open", "open", "open"),  # at the border it is not above it
        (-0.4, -0.1, "no loss", "does not pay", "worse"),  # a loss, but smaller than what counts
        (-3.0, -0.01, "loss", "does not pay", "worse"),
        (-3.0, 0.0, "open", "does not pay", "open"),
        (-3.0, 0.49, "open", "does not pay", "open"),
        (-3.0, 0.5, "open", "open", "open"),
        (0.0, 0.6, "no loss", "open", "open"),
        (0.01, 0.02, "no loss", "pays", "better"),
    ],
)
def test_verdicts_at_their_borders(low, high, loss, gain, change):
    found = between(low, high)
    assert loss_verdict(found) == loss
    assert gain_verdict(found) == gain
    assert change_verdict(found) == change


@pytest.mark.parametrize("found", [None, Estimate(5.0, None, None, 1), Estimate(5.0, None, None, 2)])
def test_without_an_interval_everything_is_open(found):
    judged = loss_verdict(found), gain_verdict(found), change_verdict(found)
    assert (*judged, reached(found, 1.0)) == ("open",) * 4


def test_a_target_is_met_by_the_mean():
    assert reached(estimate([49.0, 49.5, 50.0]), 49.5) == "met"
    assert reached(estimate([49.0, 49.5, 49.9]), 49.5) == "not met"
