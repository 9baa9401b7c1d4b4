import pytest

from tfcsr.experiments.statistics import estimate, paired_difference, prediction_interval


def test_the_interval_is_students():
    # n 5, mean 3, sd sqrt(2.5), t(4, .975) = 2.776445
    found = estimate([1, 2, 3, 4, 5])
    half = 2.776445 * 2.5**0.5 / 5**0.5
    assert (found.mean, found.n) == (3.0, 5)
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert found.half_width == pytest.approx(half)


@pytest.mark.parametrize("values", [[7.0], [6.0, 8.0]])
def test_fewer_than_three_seeds_have_no_interval(values):
    found = estimate(values)
    assert (found.mean, found.low, found.high, found.half_width, found.n) == (7.0, None, None, None, len(values))
    assert paired_difference(dict(enumerate(values)), {0: 0.0, 1: 0.0}).half_width is None


def test_three_seeds_have_one():
    # n 3, sd 1, t(2, .975) = 4.302653
    assert estimate([6.0, 7.0, 8.0]).half_width == pytest.approx(4.302653 / 3**0.5)


def test_where_one_more_run_would_lie_is_known_from_two_runs_on():
    assert prediction_interval([7.0]) is None
    low, high = prediction_interval([6.0, 8.0])
    # sd sqrt(2), t(1, .975) = 12.706205
    assert (low, high) == (pytest.approx(7 - 12.706205 * 3**0.5), pytest.approx(7 + 12.706205 * 3**0.5))


def test_differences_are_paired_by_seed():
    values, baseline = {0: 10.0, 1: 20.0, 2: 33.0}, {2: 30.0, 1: 18.0, 0: 9.0, 5: 99.0}
    found = paired_difference(values, baseline)
    assert (found.mean, found.n) == (2.0, 3)
    # differences 1, 2, 3: sd 1, t(2, .975) = 4.302653; unpaired it would be ten times as wide
    assert found.half_width == pytest.approx(4.302653 / 3**0.5)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
