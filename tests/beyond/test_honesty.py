"""How well what the memory says can be believed: known answers, and invented runs that are honest or not."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.beyond.invented import answering, fill, plausible, study_of
from tfcsr.beyond import honesty
from tfcsr.beyond.arms import OURS
from tfcsr.beyond.honesty import Pair
from tfcsr.beyond.verdicts import change_verdict

PAIRS = st.lists(
    st.builds(lambda n, k, a: Pair(1, min(n, k), n, a), st.integers(1, 40), st.integers(0, 40), st.floats(0, 100)),
    min_size=3,
    max_size=30,
)


@given(pairs=PAIRS)
def test_the_correlation_is_pearsons(pairs):
    x, y = [pair.recall for pair in pairs], [pair.accuracy for pair in pairs]
    found = honesty.correlation(pairs)
    if statistics.pstdev(x) < 1e-6 or statistics.pstdev(y) < 1e-6:
        return
    assert found == pytest.approx(statistics.correlation(x, y), abs=1e-6)
    assert -1 <= found <= 1


def test_a_correlation_that_is_not_defined():
    assert honesty.correlation([]) is honesty.correlation([Pair(1, 1, 2, 50.0)]) is None
    assert honesty.correlation([Pair(1, 1, 2, 50.0), Pair(1, 1, 2, 70.0)]) is None  # the recall does not vary
    assert honesty.correlation([Pair(1, 1, 2, 50.0), Pair(1, 2, 2, 50.0)]) is None
    assert honesty.correlation([Pair(1, 1, 4, 10.0), Pair(1, 2, 4, 20.0), Pair(1, 3, 4, 30.0)]) == pytest.approx(1)


def test_few_questions_bound_the_correlation():
    one = [Pair(1, 0, 1, a) for a in (0.0, 100.0)]
    assert honesty.honest_correlation(one) == 1.0  # whoever knows all or nothing needs one question
    few, many = ([Pair(1, 0, n, a) for a in (20.0, 50.0, 80.0)] for n in (1, 1000))
    variance, noise = 0.06, (0.16 + 0.25 + 0.16) / 3
    assert honesty.honest_correlation(few) == pytest.approx(math.sqrt(variance / (variance + noise)))
    assert 0.99 < honesty.honest_correlation(many) < 1
    assert honesty.honest_correlation([Pair(1, 0, 1, 50.0)] * 3) is None


def test_an_exam_with_known_answers():
    """Two classes, then three: recall 100 and 0, then 50, 50 and 100, against accuracy that is known."""
    study = study_of(seeds=3)
    asked, right = [[2, 2, 0], [2, 2, 4]], [[2, 0, 0], [1, 1, 4]]
    accuracy = [[90.0, 30.0, 77.0], [40.0, 60.0, 85.0]]  # of a class that nobody has seen too, as a result has it
    for seed in range(3):
        answering(study, "exam/er", seed, asked, right, accuracy, [60.0 + seed, 10.0])
    found = honesty.honesty(study, "exam", "er")
    assert (found.n, found.moments, len(found.pairs)) == (3, 6, 15)
    assert found.asked == pytest.approx(12 / 5)
    recall, truth = [100, 0, 50, 50, 100], [90, 30, 40, 60, 85]
    assert found.correlation.mean == pytest.approx(statistics.correlation(recall, truth))
    assert found.correlation.half_width == pytest.approx(0)
    first, second = (10 - 30) / 2, (10 - 10 + 15) / 3
    assert [value.mean for value in found.bias_after if value] == pytest.approx([first, second])
    assert found.bias.mean == pytest.approx((first + second) / 2)  # each moment counts alike
    assert found.bias_at_end is None  # nobody was asked after the tenth task
    # As a whole 2 of 4, then 6 of 8: 15 to 85 %, and 41 to 93 %.
    assert found.error.mean == pytest.approx((11 + 65) / 2)
    assert found.covered == 3
    assert honesty.honesty(study, "probe", "er").n == 0


def test_an_honest_exam_is_found_honest_and_the_probe_is_not():
    study = fill(study_of(sections=["accuracy", "exam"]), plausible)
    exam, probe = honesty.honesty(study, "exam", OURS), honesty.honesty(study, "probe", OURS)
    assert exam.bias.low < 0 < exam.bias.high
    assert exam.covered / exam.moments > 0.8
    assert exam.correlation.mean == pytest.approx(exam.honest_correlation.mean, abs=0.05)
    assert change_verdict(probe.bias) == "better"
    assert probe.bias_at_end.mean > 20
    assert probe.covered == 0
    assert len(probe.bias_after) == 10


def test_answers_that_cannot_be_are_left_out():
    study = study_of(seeds=3)
    asked, right = [[2, 2, 2, -1], [1]], [[3, -1, 1, 0]]
    answering(study, "exam/er", 0, asked, right, [[50.0, 50.0, math.nan, 50.0], []], [50.0])
    answering(study, "exam/er", 1, [], [], [], [50.0])
    found = honesty.honesty(study, "exam", "er")
    assert (found.n, found.pairs, found.correlation, found.bias, found.bias_after) == (0, [], None, None, [])


@given(pairs=PAIRS)
def test_every_class_is_in_one_bin(pairs):
    bins = honesty.binned(pairs)
    assert sum(part.pairs for part in bins) == len(pairs)
    for part in bins:
        assert part.low - 1e-9 <= part.accuracy <= part.high + 1e-9


def test_the_ends_of_the_bins():
    bins = honesty.binned([Pair(1, 1, 2, a) for a in (0.0, 19.9, 20.0, 80.0, 100.0)])
    assert [(part.low, part.pairs) for part in bins] == [(0, 2), (20, 1), (80, 2)]
