import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from tfcsr.experiments.student import t_probability, t_quantile

FREEDOMS = (1, 2, 3, 4, 5, 9, 19, 29, 99, 199, 200, 201, 999, 10_000, 100_000, 1_000_000, 1.5, 7.3)


@pytest.mark.parametrize("df", FREEDOMS)
def test_the_probability_is_scipys(df):
    for t in (*np.linspace(0, 15, 61), *np.geomspace(1e-3, 1e6, 31)):
        for value in (float(t), -float(t)):
            expected = float(stdtr(df, value))
            # What is smaller cannot be stored with all its digits.
            assert t_probability(df, value) == pytest.approx(expected, rel=1e-10, abs=1e-290), value


@pytest.mark.parametrize("df", FREEDOMS)
def test_the_quantile_is_scipys(df):
    for p in (*np.geomspace(1e-15, 0.49, 31), 0.025, 0.05, 0.5):
        for value in (float(p), 1 - float(p)):
            assert t_quantile(df, value) == pytest.approx(float(stdtrit(df, value)), rel=1e-10, abs=1e-12), value


@pytest.mark.parametrize(
    ("df", "expected"),
    # The numbers of the printed tables.
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (29, 2.0452), (120, 1.9799)],
)
def test_the_quantile_is_that_of_the_tables(df, expected):
    assert t_quantile(df, 0.975) == pytest.approx(expected, abs=5e-5)


@given(df=st.floats(1, 1_000_000), p=st.floats(1e-12, 1, exclude_max=True))
def test_one_is_the_inverse_of_the_other(df, p):
    t = t_quantile(df, p)
    assert t_probability(df, t) == pytest.approx(p, rel=1e-9, abs=1e-15)
    # 1 - p is rounded, which is all that the two may differ by next to a p of 1.
    assert p > 0.9 or t_quantile(df, 1 - p) == pytest.approx(-t, rel=1e-3, abs=1e-9)


@given(df=st.integers(1, 10_000), one=st.floats(-100, 100), other=st.floats(-100, 100))
def test_it_rises_and_is_symmetric(df, one, other):
    low, high = sorted((one, other))
    assert t_probability(df, low) <= t_probability(df, high) + 1e-15
    assert t_probability(df, -one) == pytest.approx(1 - t_probability(df, one), abs=1e-15)


def test_with_one_degree_it_is_cauchys():
    for t in (-1e200, -1e9, -3.0, 0.1, 2.0):
        expected = math.atan2(1, -t) / math.pi  # the arc tangent, without the rounding of a half minus nearly a half
        assert t_probability(1, t) == pytest.approx(expected, rel=1e-13)
        if t < 0:
            assert t_quantile(1, expected) == pytest.approx(t, rel=1e-12)


def test_the_ends():
    assert t_probability(4, 0.0) == t_probability(4, -0.0) == 0.5
    assert (t_probability(4, math.inf), t_probability(4, -math.inf)) == (1.0, 0.0)
    assert math.isnan(t_probability(4, math.nan))
    assert t_probability(1, 1e-9) == pytest.approx(0.5 + 1e-9 / math.pi, rel=1e-15)  # of which scipy gives 0.5
    assert t_quantile(4, 0.5) == 0
    assert t_quantile(1, 1e-300) == pytest.approx(-1e300 / math.pi)


@pytest.mark.parametrize(("df", "p"), [(0, 0.5), (-1, 0.5), (math.nan, 0.5), (math.inf, 0.5), (4, 0), (4, 1), (4, -1)])
def test_what_has_no_quantile_is_refused(df, p):
    with pytest.raises(ValueError, match="must be"):
        t_quantile(df, p)


def test_no_degrees_of_freedom_have_no_probability():
    with pytest.raises(ValueError, match="df must be"):
        t_probability(0, 1.0)
