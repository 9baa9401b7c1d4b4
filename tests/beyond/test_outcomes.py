"""What arms came to, on runs whose answer is known."""

import math
from dataclasses import replace

import pytest

from tests.beyond.invented import put, record_of, study_of
from tfcsr.beyond.arms import ARMS, OURS
from tfcsr.beyond.honesty import pairs_of
from tfcsr.beyond.outcomes import along, course, curve, paired
from tfcsr.beyond.verdicts import reached
from tfcsr.experiments.statistics import Estimate


def test_too_few_seeds_give_no_interval():
    study = study_of()
    put(study, "accuracy/er", {0: 20.0, 1: 21.0, 2: 22.0})
    put(study, f"accuracy/{OURS}", {0: 50.0, 1: 52.0})
    two = paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert (two.mean, two.low, two.high, two.n) == (30.5, None, None, 2)
    assert reached(two, 10.0) == "open"
    put(study, f"accuracy/{OURS}", {2: 51.0})
    three = paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert three.low < 30 < three.high
    assert reached(three, 10.0) == "met"


def test_pairs_are_made_of_the_seeds_that_both_have():
    study = study_of(seeds=6)
    put(study, "accuracy/er", {0: 10.0, 1: 20.0, 2: 30.0, 4: 99.0})
    put(study, f"accuracy/{OURS}", {1: 21.0, 2: 32.0, 3: 1.0})
    assert paired(study, f"accuracy/{OURS}", "accuracy/er") == Estimate(1.5, None, None, 2)
    put(study, f"accuracy/{OURS}", {0: 13.0})
    found = paired(study, f"accuracy/{OURS}", "accuracy/er")
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half_width == pytest.approx(4.302652729749462 / math.sqrt(3))  # Student's t, their deviation is 1
    assert paired(study, "accuracy/er", "accuracy/icarl") is None


def test_the_curve_of_runs_that_are_not_of_one_length():
    spec = ARMS["accuracy/er"].spec(0)
    one = record_of(spec, 30.0)
    short = replace(one, accuracy_after_task=[1.0, 2.0])
    assert len(curve([one, short])) == 2
    assert curve([]) == []


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
    found = course(study, f"accuracy/{OURS}", "accuracy/icarl")
    assert (found.behind, found.ahead) == ([1, 2, 3], [7, 8, 9, 10])
    assert found.mean.mean == pytest.approx(-0.8)
    assert found.mean.n == 5
    assert course(study, f"accuracy/{OURS}", "accuracy/er") is None
    old = study_of()
    for spec in old.specs(f"accuracy/{OURS}").values():
        old.add(replace(record_of(spec, 50.0), all_outputs=True))
    assert along(old.of(f"accuracy/{OURS}")) == {}
    assert course(old, f"accuracy/{OURS}", f"accuracy/{OURS}") is None


def test_before_the_last_task_a_run_that_was_asked_over_all_outputs_counts_where_there_is_no_other():
    study = study_of()
    specs = study.specs(f"accuracy/{OURS}")
    records = [record_of(specs[seed], 50.0 + seed) for seed in (0, 1)]
    after = [[80.0 - 10 * seed, *record.accuracy_after_task[1:]] for seed, record in enumerate(records)]
    records = [replace(record, accuracy_after_task=own) for record, own in zip(records, after, strict=True)]
    old = replace(records[1], all_outputs=True)
    assert curve(records)[0].mean == 75.0
    assert [curve([records[0], old])[place].mean for place in (0, -1)] == [80.0, 50.5]
    assert [curve([old])[place].mean for place in (0, -1)] == [70.0, 51.0]
    asked = {"recall_asked": [[4]] * 10, "recall_right": [[2]] * 10, "class_accuracy": [[50.0]] * 10}
    assert [pair.task for pair in pairs_of(replace(old, **asked))] == [10]
    assert [pair.task for pair in pairs_of(replace(records[0], **asked))] == list(range(1, 11))
