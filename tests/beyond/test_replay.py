"""How much replay is needed, when, and who decides, on runs whose answer is known."""

import pytest

from tests.beyond.invented import put, study_of
from tfcsr.beyond.arms import OURS, WHEN
from tfcsr.beyond.outcomes import method_of
from tfcsr.beyond.replay import Effects, adapting, effects, frontier, quarter, timing
from tfcsr.beyond.verdicts import change_verdict


def test_the_frontier():
    study = study_of()
    for when, change in (("every", 0.0), ("spaced", -0.1), ("two", -3.0), ("one", -4.0), ("eight", 1.0)):
        put(study, f"frontier/{OURS}/{when}", {seed: 50.0 + change + 0.01 * seed * (-1) ** seed for seed in range(3)})
    points = {point.when: point for point in frontier(study, OURS)}
    assert list(points) == list(WHEN)
    shares = {when: point.batches for when, point in points.items() if point.n}
    assert shares == pytest.approx({"every": 1.0, "spaced": 0.25, "two": 0.1, "one": 0.05, "eight": 1.0})
    assert points["eight"].images == pytest.approx(0.25)
    verdicts = {when: point.verdict for when, point in points.items()}
    expected = {"every": "", "spaced": "no loss", "two": "loss", "one": "loss", "eight": "no loss"}
    assert verdicts == dict.fromkeys(WHEN, "open") | expected
    assert points["none"].accuracy is points["none"].batches is None
    target = quarter(list(points.values()))
    assert target.verdict == "met"
    assert [point.when for point in target.at_no_loss] == ["spaced"]  # a control is no proposal, nor are all batches


def test_the_target_of_the_frontier_is_missed_only_when_all_that_was_tried_lost():
    def verdict(**changes):
        study = study_of()
        for when, change in changes.items():
            noise = {"spaced": 1.0}.get(when, 0.0)
            put(study, f"frontier/er/{when}", {s: 30 + change + noise * (s - 1) for s in range(3)})
        return quarter(frontier(study, "er")).verdict

    assert verdict() == verdict(every=0) == verdict(spaced=0) == verdict(every=0, random=0) == "open"
    assert verdict(every=0, two=-2, one=-3) == "not met"
    assert verdict(every=0, two=-2, spaced=0) == "open"
    assert verdict(every=0, two=-2, one=0.1, random=-5) == "met"


def test_the_two_effects_add_up():
    study = study_of()
    for when, final in (("every", 30.0), ("same-new", 27.0), ("spaced", 31.0), ("random", 30.5), ("fourth", 32.0)):
        put(study, f"frontier/er/{when}", {seed: final + seed for seed in range(3)})
    found = effects(study, "er")
    assert (found.less_replay.mean, found.more_new.mean, found.together.mean) == (-3.0, 4.0, 1.0)
    assert (found.random.mean, found.fourth.mean) == (-0.5, 1.0)
    nothing = Effects(None, None, None, None, None)
    assert effects(study, OURS) == effects(study, "er", "digits") == nothing
    for when, final in (("every", 90.0), ("same-new", 88.0), ("spaced", 91.0)):
        put(study, f"small/digits/frontier/er/{when}", {seed: final + seed for seed in range(3)})
    small = effects(study, "er", "digits")
    assert (small.less_replay.mean, small.more_new.mean, small.together.mean) == (-2.0, 3.0, 1.0)


def test_adapting_is_held_against_its_own_twin():
    study = study_of(seeds=3)
    put(study, "adapting/sm2", {0: 50.0, 1: 51.0, 2: 52.0}, replayed=79 * 32 * 9 * 3, probes=[[1, 1, 50.0]] * 7)
    put(study, "adapting/sm2/fixed", {0: 49.0, 1: 49.9, 2: 51.1})
    put(study, "adapting/fsrs", {0: 50.0})
    by_label = {one.label: one for one in adapting(study)}
    found = by_label["SM-2, the memory"]
    assert found.verdict == "pays"
    assert found.adaptive.difference.mean == pytest.approx(1.0)
    assert found.adaptive.replayed == found.fixed.replayed == 79 * 32 * 9 * 3
    assert (found.adaptive.memory_checks, found.fixed.memory_checks) == (7, 0)
    assert all(one.matched for one in by_label.values())
    assert by_label["FSRS, the memory"].verdict == by_label["Leitner boxes, each class"].verdict == "open"


def test_what_a_yoked_run_lacks_is_its_own_exam():
    """The driven one is ahead of evenly spread epochs, and not of what another run's exam asked for."""
    study = study_of()
    put(study, "adapting/fsrs", {seed: 50.0 + seed for seed in range(5)}, probes=[[2, 1, 50.0]])
    put(study, "adapting/fsrs/fixed", {seed: 47.0 + seed + seed % 2 for seed in range(5)})
    put(study, "adapting/fsrs/yoked", {seed: 50.0 + seed + (-1) ** seed for seed in range(5)})
    found = {one.label: one for one in adapting(study)}
    driven = found["FSRS, the memory"]
    assert (driven.verdict, change_verdict(driven.own_exam)) == ("pays", "open")
    assert driven.own_exam.mean == pytest.approx(-0.2)
    assert driven.yoked.n == driven.own_exam.n == 5
    assert found["SM-2, the memory"].own_exam is None
    assert found["Leitner boxes, each class"].yoked is None


def test_the_same_replay_placed_otherwise_is_held_against_evenly_spread_epochs():
    study = study_of(seeds=1)
    put(study, "small/digits/timing/even", {seed: 80.0 + seed for seed in range(6)})
    put(study, "small/digits/timing/spaced", {seed: 83.0 + seed + 0.1 * (seed % 2) for seed in range(6)})
    put(study, "small/digits/timing/last", {seed: 70.0 + seed - 0.1 * (seed % 2) for seed in range(6)})
    found = {method_of(way.name): way for way in timing(study, "digits")}
    assert found["even"].difference is None
    assert found["spaced"].difference.mean == pytest.approx(3.05)
    assert [change_verdict(found[when].difference) for when in ("spaced", "last", "first")] == [
        "better",
        "worse",
        "open",
    ]
    assert all(way.n == 0 for way in timing(study, "mnist"))


@pytest.mark.parametrize("replayed", [None, 79 * 32 * 9 * 4.6, 79 * 32 * 9 * 3.4])
def test_adapting_is_open_where_its_twin_replays_another_amount(replayed):
    study = study_of(seeds=3)
    put(study, "adapting/sm2", {0: 50.0, 1: 51.0, 2: 52.0}, replayed=79 * 32 * 9 * 4)
    put(study, "adapting/sm2/fixed", {0: 40.0, 1: 41.0, 2: 42.0}, replayed=replayed)
    found = next(one for one in adapting(study) if one.label == "SM-2, the memory")
    assert (found.matched, found.verdict, found.adaptive.difference.mean) == (False, "open", 10.0)


def test_of_an_older_run_nobody_knows_what_was_replayed():
    study = study_of()
    put(study, "frontier/er/every", {0: 30.0}, replayed=None)
    put(study, "frontier/er/spaced", {0: 29.0})
    points = {point.when: point for point in frontier(study, "er")}
    assert points["spaced"].batches == 0.25
    assert points["spaced"].images is None
