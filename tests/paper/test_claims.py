"""How many different things were compared, and what would have been noticed."""

import math

import pytest

from tfcsr.experiments.statistics import holm
from tfcsr.paper.claims import Comparison, claims
from tfcsr.paper.published import TARGETS
from tfcsr.paper.reproduction import open_study


def of(published, *values, label="x", quantity="final_accuracy"):
    return Comparison(label, quantity, published, values)


def test_what_never_varies_is_not_judged():
    assert not of(50.0, 50.0, 50.0, 50.0).varies
    assert of(50.0, 50.0, 50.0, 50.0).noticeable is None
    assert of(50.0, 49.0).noticeable is None


def test_the_deviation_that_would_have_been_noticed():
    """Two runs of 9 and 11: t(0.975, 1) s sqrt(1 + 1/2), and as much more as a normal lies below with 80 %."""
    s = math.sqrt(2)
    assert of(10.0, 9.0, 11.0).noticeable == pytest.approx(12.706204736 * s * math.sqrt(1.5) + 0.8416212336 * s)


def test_a_deviation_of_that_size_is_noticed_four_times_in_five():
    import random

    draw = random.Random(0)
    noticed = []
    for _ in range(4000):
        ours = [draw.gauss(0, 1) for _ in range(5)]
        away = of(0.0, *ours).noticeable
        # The other's mean lies so far from ours as measured; its single run scatters as ours do.
        mean = sum(ours) / 5 + away
        scale = math.sqrt(sum((x - sum(ours) / 5) ** 2 for x in ours) / 4)
        noticed.append(of(draw.gauss(mean, scale), *ours).verdict == "not consistent")
    assert sum(noticed) / len(noticed) == pytest.approx(0.8, abs=0.03)


def test_holm_stops_at_the_first_that_chance_explains():
    far, near = of(20.0, 9.0, 10.0, 11.0, 10.0, 10.0), of(10.4, 9.0, 10.0, 11.0, 10.0, 10.0)
    assert holm([near, far, near]) == [far]
    assert holm([near] * 3) == []
    edge = of(13.2, 9.0, 10.0, 11.0, 10.0, 10.0)
    assert 0.01 < edge.probability < 0.05  # enough alone, not among ten
    assert holm([edge]) == [edge]
    assert holm([edge, *[near] * 9]) == []


def test_of_the_paper_each_comparison_counts_once():
    study = open_study(["all"], out="docs/reproduction")
    found = claims(study)
    told = [line for target in TARGETS.values() for line in study.lines(target) if line.published is not None]
    assert len(found.values) < len(told) / 2
    known = [(c.quantity, c.published, c.values) for c in found.judged]
    assert len(known) == len(set(known))
    assert len(found.judged) + sum(not c.varies for c in found.values) == len(found.values)
    least, middle, most = found.smallest_noticeable()
    assert 0 < least < middle < most


def test_without_runs_there_is_nothing_to_claim(tmp_path):
    found = claims(open_study(["all"], out=tmp_path))
    assert (found.values, found.points, found.smallest_noticeable(), found.surviving()) == ([], [], None, [])
