import pytest

from tfcsr.experiments.statistics import estimate, paired_difference


def test_the_interval_is_students():
    # n 5, mean 3, sd sqrt(2.5), t(4, .975) = 2.776445
    found = estimate([1, 2, 3, 4, 5])
    half = 2.776445 * 2.5**0.5 / 5**0.5
    assert (found.mean, found.n) == (3.0, 5)
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert found.half_width == pytest.approx(half)


def test_one_seed_has_no_interval():
    found = estimate([7.0])
    assert (found.mean, found.low, found.high, found.half_width, found.n) == (7.0, None, None, None, 1)


def test_differences_are_paired_by_seed():
    values, baseline = {0: 10.0, 1: 20.0, 2: 33.0}, {2: 30.0, 1: 18.0, 0: 9.0, 5: 99.0}
    found = paired_difference(values, baseline)
    assert (found.mean, found.n) == (2.0, 3)
    # differences 1, 2, 3: sd 1, t(2, .975) = 4.302653; unpaired it would be ten times as wide
    assert found.half_width == pytest.approx(4.302653 / 3**0.5)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
