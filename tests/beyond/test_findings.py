"""What the runs say, on runs whose answer is known."""

import math
from dataclasses import replace

import pytest

from tests.beyond.invented import fill, put, record_of, study_of
from tfcsr.beyond import findings
from tfcsr.beyond.arms import ARMS, NAMES, OURS, WHEN, WITHOUT
from tfcsr.beyond.findings import method_of
from tfcsr.beyond.honesty import pairs_of
from tfcsr.experiments.statistics import Estimate, estimate


def between(low, high, n=5):
    return Estimate((low + high) / 2, low, high, n)


def test_too_few_seeds_give_no_interval():
    study = study_of()
    put(study, "accuracy/er", {0: 20.0, 1: 21.0, 2: 22.0})
    put(study, f"accuracy/{OURS}", {0: 50.0, 1: 52.0})
    two = findings.paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert (two.mean, two.low, two.high, two.n) == (30.5, None, None, 2)
    assert findings.reached(two, 10.0) == "open"
    put(study, f"accuracy/{OURS}", {2: 51.0})
    three = findings.paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert three.low < 30 < three.high
    assert findings.reached(three, 10.0) == "met"


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
    assert findings.loss_verdict(found) == loss
    assert findings.gain_verdict(found) == gain
    assert findings.change_verdict(found) == change


@pytest.mark.parametrize("found", [None, Estimate(5.0, None, None, 1), Estimate(5.0, None, None, 2)])
def test_without_an_interval_everything_is_open(found):
    judged = findings.loss_verdict(found), findings.gain_verdict(found), findings.change_verdict(found)
    assert (*judged, findings.reached(found, 1.0)) == ("open",) * 4


def test_a_target_is_met_by_the_mean():
    assert findings.reached(estimate([49.0, 49.5, 50.0]), 49.5) == "met"
    assert findings.reached(estimate([49.0, 49.5, 49.9]), 49.5) == "not met"


def test_pairs_are_made_of_the_seeds_that_both_have():
    study = study_of(seeds=6)
    put(study, "accuracy/er", {0: 10.0, 1: 20.0, 2: 30.0, 4: 99.0})
    put(study, f"accuracy/{OURS}", {1: 21.0, 2: 32.0, 3: 1.0})
    assert findings.paired(study, f"accuracy/{OURS}", "accuracy/er") == Estimate(1.5, None, None, 2)
    put(study, f"accuracy/{OURS}", {0: 13.0})
    found = findings.paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half_width == pytest.approx(4.302652729749462 / math.sqrt(3))  # Student's t, their deviation is 1
    assert findings.paired(study, "accuracy/er", "accuracy/icarl") is None


def test_the_frontier():
    study = study_of()
    for when, change in (("every", 0.0), ("spaced", -0.1), ("two", -3.0), ("one", -4.0), ("eight", 1.0)):
        put(study, f"frontier/{OURS}/{when}", {seed: 50.0 + change + 0.01 * seed * (-1) ** seed for seed in range(3)})
    points = {point.when: point for point in findings.frontier(study, OURS)}
    assert list(points) == list(WHEN)
    shares = {when: point.batches for when, point in points.items() if point.n}
    assert shares == pytest.approx({"every": 1.0, "spaced": 0.25, "two": 0.1, "one": 0.05, "eight": 1.0})
    assert points["eight"].images == pytest.approx(0.25)
    verdicts = {when: point.verdict for when, point in points.items()}
    expected = {"every": "", "spaced": "no loss", "two": "loss", "one": "loss", "eight": "no loss"}
    assert verdicts == dict.fromkeys(WHEN, "open") | expected
    assert points["none"].accuracy is points["none"].batches is None
    target = findings.quarter(list(points.values()))
    assert target.verdict == "met"
    assert [point.when for point in target.at_no_loss] == ["spaced"]  # a control is no proposal, nor are all batches


def test_the_target_of_the_frontier_is_missed_only_when_all_that_was_tried_lost():
    def verdict(**changes):
        study = study_of()
        for when, change in changes.items():
            noise = {"spaced": 1.0}.get(when, 0.0)
            put(study, f"frontier/er/{when}", {s: 30 + change + noise * (s - 1) for s in range(3)})
        return findings.quarter(findings.frontier(study, "er")).verdict

    assert verdict() == verdict(every=0) == verdict(spaced=0) == verdict(every=0, random=0) == "open"
    assert verdict(every=0, two=-2, one=-3) == "not met"
    assert verdict(every=0, two=-2, spaced=0) == "open"
    assert verdict(every=0, two=-2, one=0.1, random=-5) == "met"


def test_the_two_effects_add_up():
    study = study_of()
    for when, final in (("every", 30.0), ("same-new", 27.0), ("spaced", 31.0), ("random", 30.5), ("fourth", 32.0)):
        put(study, f"frontier/er/{when}", {seed: final + seed for seed in range(3)})
    found = findings.effects(study, "er")
    assert (found.less_replay.mean, found.more_new.mean, found.together.mean) == (-3.0, 4.0, 1.0)
    assert (found.random.mean, found.fourth.mean) == (-0.5, 1.0)
    nothing = findings.Effects(None, None, None, None, None)
    assert findings.effects(study, OURS) == findings.effects(study, "er", "digits") == nothing
    for when, final in (("every", 90.0), ("same-new", 88.0), ("spaced", 91.0)):
        put(study, f"small/digits/frontier/er/{when}", {seed: final + seed for seed in range(3)})
    small = findings.effects(study, "er", "digits")
    assert (small.less_replay.mean, small.more_new.mean, small.together.mean) == (-2.0, 3.0, 1.0)


def test_adapting_is_held_against_its_own_twin():
    study = study_of(seeds=3)
    put(study, "adapting/sm2", {0: 50.0, 1: 51.0, 2: 52.0}, replayed=79 * 32 * 9 * 3, probes=[[1, 1, 50.0]] * 7)
    put(study, "adapting/sm2/fixed", {0: 49.0, 1: 49.9, 2: 51.1})
    put(study, "adapting/fsrs", {0: 50.0})
    by_label = {one.label: one for one in findings.adapting(study)}
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
    found = {one.label: one for one in findings.adapting(study)}
    driven = found["FSRS, the memory"]
    assert (driven.verdict, findings.change_verdict(driven.own_exam)) == ("pays", "open")
    assert driven.own_exam.mean == pytest.approx(-0.2)
    assert driven.yoked.n == driven.own_exam.n == 5
    assert found["SM-2, the memory"].own_exam is None
    assert found["Leitner boxes, each class"].yoked is None


def test_the_same_replay_placed_otherwise_is_held_against_evenly_spread_epochs():
    study = study_of(seeds=1)
    put(study, "small/digits/timing/even", {seed: 80.0 + seed for seed in range(6)})
    put(study, "small/digits/timing/spaced", {seed: 83.0 + seed + 0.1 * (seed % 2) for seed in range(6)})
    put(study, "small/digits/timing/last", {seed: 70.0 + seed - 0.1 * (seed % 2) for seed in range(6)})
    found = {method_of(way.name): way for way in findings.timing(study, "digits")}
    assert found["even"].difference is None
    assert found["spaced"].difference.mean == pytest.approx(3.05)
    assert [findings.change_verdict(found[when].difference) for when in ("spaced", "last", "first")] == [
        "better",
        "worse",
        "open",
    ]
    assert all(way.n == 0 for way in findings.timing(study, "mnist"))


@pytest.mark.parametrize(("small", "whole"), [(None, f"accuracy/{OURS}"), ("digits", "small/digits/whole")])
def test_ingredients_and_policies_are_held_against_ours_as_it_is(small, whole):
    study = study_of(seeds=1 if small else 5)
    without = f"{findings.asked('ablation', small)}/herding"
    put(study, whole, {seed: 50.0 + seed for seed in range(3)})
    put(study, without, {seed: 48.0 + seed + 0.3 * (seed % 2) for seed in range(3)})
    put(study, f"{findings.asked('policies', small)}/ipm", {seed: 51.0 + seed + 0.3 * (seed % 2) for seed in range(3)})
    ingredients, policies = findings.ablation(study, small), findings.policies(study, small)
    assert (ingredients[0].name, ingredients[0].difference, policies[0].difference) == (whole, None, None)
    assert len(ingredients) == 1 + len(WITHOUT) + 1 - 2 * (small is not None)
    found = {row.label: row.difference.mean for row in (*ingredients, *policies) if row.difference is not None}
    expected = {"class-balanced instead of herded memory": -1.9, "class-balanced": -1.9, "ipm": 1.1}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("replayed", [None, 79 * 32 * 9 * 4.6, 79 * 32 * 9 * 3.4])
def test_adapting_is_open_where_its_twin_replays_another_amount(replayed):
    study = study_of(seeds=3)
    put(study, "adapting/sm2", {0: 50.0, 1: 51.0, 2: 52.0}, replayed=79 * 32 * 9 * 4)
    put(study, "adapting/sm2/fixed", {0: 40.0, 1: 41.0, 2: 42.0}, replayed=replayed)
    found = next(one for one in findings.adapting(study) if one.label == "SM-2, the memory")
    assert (found.matched, found.verdict, found.adaptive.difference.mean) == (False, "open", 10.0)


def test_the_exams_cost_and_the_ablation_are_paired_with_the_whole():
    study = study_of(seeds=3)
    put(study, f"accuracy/{OURS}", {0: 50.0, 1: 51.0, 2: 53.0})
    put(study, f"exam/{OURS}", {0: 49.0, 1: 50.0, 2: 52.0})
    put(study, "ablation/strong", {0: 45.0, 1: 46.1, 2: 48.2})
    assert findings.exam_cost(study, OURS).difference.mean == -1.0
    assert findings.exam_cost(study, "er").difference is None
    rows = findings.ablation(study)
    assert (rows[0].label, rows[0].difference) == ("all of it", None)
    known = {row.name: row.difference.mean for row in rows if row.difference is not None}
    assert known == pytest.approx({"ablation/strong": -4.9, f"exam/{OURS}": -1.0})


def test_the_field():
    study = study_of(seeds=3)
    put(study, "field/500/spaced", {0: 49.0, 1: 50.0, 2: 50.9})
    put(study, "field/2000/every", {0: 59.0, 1: 59.2, 2: 59.4})
    found = {(one.memory, one.way): (one.verdict, one.ahead) for one in findings.field(study)}
    assert found == {
        (500, "spaced"): ("not met", "met"),
        (2000, "spaced"): ("open", "open"),
        (2000, "every"): ("met", "met"),
        (2000, "fourth"): ("open", "open"),
        (2000, "eased"): ("open", "open"),
    }
    assert [findings.best_published(memory).accuracy[memory] for memory in (500, 2000)] == [49.9, 59.1]
    assert findings.best_published(7) is None


def test_a_ranking():
    study = study_of(seeds=3)
    setting = "elsewhere/cnn"
    for method, final in (("er", 20.0), ("icarl", 40.0), (OURS, 35.0), ("joint", 60.0)):
        put(study, f"{setting}/{method}", {seed: final + seed for seed in range(3)})
    found = findings.ranking(study, setting)
    assert found.order == ["icarl", OURS, "er"]
    assert [place.n for place in found.places] == [3, 3, 3, 0, 0]
    assert (found.rival, found.lead.mean, found.complete) == ("icarl", -5.0, False)
    assert found.bound.difference.mean == 40.0
    assert [place.newest_alone for place in found.places] == [0, 0, 0, 0, 0]
    assert findings.ranking(study, "elsewhere/mnist").order == []
    assert findings.settings() == [f"elsewhere/{place}" for place in ("mnist", "20-tasks", "50-tasks", "cnn")]


def test_who_knows_the_newest_task_alone_is_counted():
    study = study_of(seeds=3)
    put(study, "elsewhere/20-tasks/er", {0: 5.0, 1: 27.0, 2: 3.7})
    put(study, "elsewhere/50-tasks/er", {0: 5.0, 1: 2.01, 2: 2.0})
    counts = [findings.ranking(study, f"elsewhere/{tasks}-tasks").places[0].newest_alone for tasks in (20, 50)]
    assert counts == [2, 1]


def test_choices_are_judged_by_what_was_held_out():
    study = fill(study_of(sections=["choices"]), lambda name, seed: 30.0 + len(name))
    found = findings.choices(study)
    others = ("er", "er-ace", "derpp", "icarl")
    assert {of: [one.label for one in tried if one.chosen] for of, tried in found.items()} == {
        OURS: ["as it is"],
        **{NAMES[method]: [f"{NAMES[method]}, this recipe"] for method in others},
    }
    assert found[OURS][0].held_out == pytest.approx(31.0 + len("choices/as it is"))
    assert "accuracy" not in {field for field in vars(found[OURS][0]) if field != "held_out"}


def test_a_section_has_runs_of_its_own():
    study = study_of(sections=["accuracy"])
    put(study, "accuracy/er", {0: 30.0})  # which is also a point of the frontier
    assert findings.sections_with_runs(study) == {"accuracy"}
    study.sections = ["frontier"]
    assert findings.sections_with_runs(study) == {"frontier"}
    study.sections = ["exam"]
    assert findings.sections_with_runs(study) == {"accuracy"}
    put(study, "frontier/er/none", {0: 8.0})
    assert findings.sections_with_runs(study) == {"accuracy", "frontier"}


def test_of_an_older_run_nobody_knows_what_was_replayed():
    study = study_of()
    put(study, "frontier/er/every", {0: 30.0}, replayed=None)
    put(study, "frontier/er/spaced", {0: 29.0})
    points = {point.when: point for point in findings.frontier(study, "er")}
    assert points["spaced"].batches == 0.25
    assert points["spaced"].images is None


def test_the_curve_of_runs_that_are_not_of_one_length():
    spec = ARMS["accuracy/er"].spec(0)
    one = record_of(spec, 30.0)
    short = replace(one, accuracy_after_task=[1.0, 2.0])
    assert len(findings.curve([one, short])) == 2
    assert findings.curve([]) == []


def test_the_course_of_two_methods_over_the_sequence():
    """Ours begins 10 points lower, catches up and ends 5 higher; in between nobody can tell."""
    study = study_of()
    start = [-10.0, -6.0, -3.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 5.0]
    for seed, spec in study.specs("accuracy/icarl").items():
        study.add(replace(record_of(spec, 50.0), accuracy_after_task=[50.0 + seed] * 10))
    for seed, spec in study.specs(f"accuracy/{OURS}").items():
        noise = 2.0 * (seed % 2) - 0.8
        after = [50.0 + seed + d + (noise if d == 0 else 0.1 * noise) for d in start]
        study.add(replace(record_of(spec, 50.0), accuracy_after_task=after))
    found = findings.course(study, f"accuracy/{OURS}", "accuracy/icarl")
    assert (found.behind, found.ahead) == ([1, 2, 3], [7, 8, 9, 10])
    assert found.mean.mean == pytest.approx(-0.8)
    assert found.mean.n == 5
    assert findings.course(study, f"accuracy/{OURS}", "accuracy/er") is None
    old = study_of()
    for spec in old.specs(f"accuracy/{OURS}").values():
        old.add(replace(record_of(spec, 50.0), all_outputs=True))
    assert findings.along(old.of(f"accuracy/{OURS}")) == {}
    assert findings.course(old, f"accuracy/{OURS}", f"accuracy/{OURS}") is None


def test_before_the_last_task_a_run_that_was_asked_over_all_outputs_counts_where_there_is_no_other():
    study = study_of()
    specs = study.specs(f"accuracy/{OURS}")
    records = [record_of(specs[seed], 50.0 + seed) for seed in (0, 1)]
    after = [[80.0 - 10 * seed, *record.accuracy_after_task[1:]] for seed, record in enumerate(records)]
    records = [replace(record, accuracy_after_task=own) for record, own in zip(records, after, strict=True)]
    old = replace(records[1], all_outputs=True)
    assert findings.curve(records)[0].mean == 75.0
    assert [findings.curve([records[0], old])[place].mean for place in (0, -1)] == [80.0, 50.5]
    assert [findings.curve([old])[place].mean for place in (0, -1)] == [70.0, 51.0]
    asked = {"recall_asked": [[4]] * 10, "recall_right": [[2]] * 10, "class_accuracy": [[50.0]] * 10}
    assert [pair.task for pair in pairs_of(replace(old, **asked))] == [10]
    assert [pair.task for pair in pairs_of(replace(records[0], **asked))] == list(range(1, 11))
