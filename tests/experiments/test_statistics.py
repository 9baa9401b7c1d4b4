import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcsr.experiments.statistics import estimate, is_forgotten, paired_difference, prediction_interval, wilson


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


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilsons_interval(n, share):
    """Its ends are the shares from which what was found is just 1.96 of their own deviations away."""
    found = round(n * share) / n
    low, high = (end / 100 for end in wilson(round(n * share), n))
    assert 0 <= low <= found <= high <= 1
    for end in (low, high):
        assert n * (found - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end), rel=1e-6, abs=1e-12)


def test_wilsons_interval_as_it_is_printed():
    assert wilson(8, 10) == pytest.approx((49.02, 94.33), abs=0.01)
    assert wilson(0, 10) == pytest.approx((0.0, 27.75), abs=0.01)


def test_five_points_below_its_best_is_forgotten():
    assert [is_forgotten(now, 99.0) for now in (94.1, 94.0, 93.0, 99.0)] == [False, True, True, False]


def test_of_few_questions_only_what_chance_does_not_explain():
    """Of 20 questions 18 were right once; 13 may still be as good, 12 is not."""
    assert [is_forgotten(100 * right / 20, 90.0, 20) for right in (18, 17, 15, 13, 12, 0)] == [False] * 4 + [True] * 2
    assert [is_forgotten(0.0, 100.0, asked) for asked in (1, 2, 3)] == [False, True, True]


@given(asked=st.integers(1, 400), right=st.floats(0, 1), best=st.floats(0, 100))
def test_more_questions_never_say_less(asked, right, best):
    """A share that is told apart from the best with some questions is told apart with ten times as many."""
    now = 100 * round(asked * right) / asked
    if is_forgotten(now, best, asked):
        assert is_forgotten(now, best, 10 * asked)
        assert is_forgotten(now, best)
