"""Student's t distribution, from Python's own math: scipy would be a large package, and a slow import, for two numbers.

The incomplete beta function is a continued fraction, evaluated by Lentz's method (Press et al., Numerical Recipes, 3rd
edition, 5.2 and 6.4).
"""

import math
from functools import lru_cache
from statistics import NormalDist

# A change that is smaller is rounding.
CLOSE = 4e-15
TINY = 1e-300
STEPS = 10_000
# What was compared with scipy: degrees of freedom, and probabilities.
MOST, LEAST = 1_000_000, 1e-300


def t_probability(df: float, t: float) -> float:
    """How probable a value of at most t is, with so many degrees of freedom."""
    if not 1 <= df <= MOST:
        raise ValueError(f"t_probability(df={df}): df must be from 1 to {MOST}")
    if math.isnan(t):
        return t
    tail = _tail(df, abs(t))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=1024)
def t_quantile(df: float, p: float) -> float:
    """The value that is not exceeded with probability p."""
    if not 1 <= df <= MOST or not LEAST <= p < 1:
        raise ValueError(f"t_quantile(df={df}, p={p}): df must be from 1 to {MOST}, and p from {LEAST:g} to below 1")
    if p == 0.5:
        return 0.0
    wanted = min(p, 1 - p)
    # Newton's method for the logarithms of t and of its tail: a concave curve, so one step may be too long, and all
    # after it are not. The normal quantile is a start of the right size even next to 0.
    found = abs(NormalDist().inv_cdf(wanted))
    for _ in range(STEPS):
        tail = _tail(df, found)
        change = math.log(tail / wanted) * tail / _slope(df, found)
        found *= math.exp(change)
        if abs(change) < 1e-9:  # the next one would be its square
            break
    return math.copysign(found, p - 0.5)


def _tail(df: float, t: float) -> float:
    """How probable a value above t is, where t is not below 0."""
    # x and 1 - x, each without a difference.
    x, rest = (_share(part, whole) ** 2 for part, whole in ((math.sqrt(df), t), (t, math.sqrt(df))))
    a = df / 2
    # On either side of this point one of the two fractions converges in a few steps.
    if x < (a + 1) / (a + 2.5):
        return _slope(df, t) * _fraction(a, 0.5, x) / df
    return 0.5 - _slope(df, t) * _fraction(0.5, a, rest)


def _slope(df: float, t: float) -> float:
    """t times its density."""
    ratio = t / math.sqrt(df)
    # log(sqrt(1 + ratio²)), without the square of a large number.
    log = math.log1p(ratio * ratio) / 2 if ratio < 1 else math.log(math.hypot(1, ratio))
    return _gamma_ratio(df / 2) / math.sqrt(math.pi) * math.exp(-df * log) * _share(t, math.sqrt(df))


def _share(part: float, other: float) -> float:
    return 1.0 if part == math.inf else part / math.hypot(part, other)


@lru_cache(maxsize=1024)
def _gamma_ratio(a: float) -> float:
    """Gamma(a + 1/2) / Gamma(a)."""
    if a < 100:
        return math.gamma(a + 0.5) / math.gamma(a)
    # A series: the difference of two large logarithms would have few digits.
    square = 1 / (a * a)
    return math.sqrt(a) * math.exp((-1 / 8 + square * (1 / 192 + square * (-1 / 640 + square * 17 / 14336))) / a)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            found *= d * c
        if abs(d * c - 1) <= CLOSE:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY
