"""What an estimate says: whether something is a loss, pays, is better, or reaches what was wanted."""

from tfcsr.experiments.statistics import FEWEST, Estimate

# In points: what is smaller is no loss, and no gain worth having.
MARGIN = 0.5
QUARTER = 0.25


def loss_verdict(difference: Estimate | None) -> str:
    """Whether less replay costs anything: `no loss`, `loss` or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > -MARGIN:
        return "no loss"
    return "loss" if difference.high < 0 else "open"


def gain_verdict(difference: Estimate | None) -> str:
    """Whether an effort is worth it: it `pays`, `does not pay` (a gain of half a point is ruled out), or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > 0:
        return "pays"
    return "does not pay" if difference.high < MARGIN else "open"


def change_verdict(difference: Estimate | None) -> str:
    """`better`, `worse`, or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "open"


def reached(found: Estimate | None, wanted: float) -> str:
    """`met` where the mean reaches it, `not met` where it does not, `open` with too few seeds."""
    if found is None or found.n < FEWEST:
        return "open"
    return "met" if found.mean >= wanted else "not met"
