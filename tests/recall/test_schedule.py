import json
import subprocess
import sys

import pytest

from tfcsr.errors import SpecError
from tfcsr.recall.schedule import LONGEST_GAP, SCHEDULES, ExpandingSchedule, FixedSchedule, Schedule, ScheduleState

PASS, FAIL = 100.0, 0.0


def history(schedule: Schedule, recalls: list[float]) -> list[int]:
    """The epochs at which probes fire, one more than there are recalls."""
    state = schedule.start()
    epochs = [state.next_epoch]
    for recall in recalls:
        state, _ = schedule.review(state, recall)
        epochs.append(state.next_epoch)
    return epochs


def test_all_pass():
    assert history(ExpandingSchedule(), [PASS] * 9) == [1, 3, 5, 8, 13, 21, 32, 49, 75, 113]


def test_all_fail_probes_every_epoch():
    assert history(ExpandingSchedule(), [FAIL] * 9) == list(range(1, 11))


def test_mixed_history_keeps_the_gap_through_failures():
    # gaps: 1.5 | fail | fail | 2.25 | 3.375 | fail | 5.06
    recalls = [PASS, FAIL, FAIL, PASS, PASS, FAIL, PASS]
    assert history(ExpandingSchedule(), recalls) == [1, 3, 4, 5, 7, 10, 11, 16]


def test_gaps_round_half_to_even():
    # 1 * 2.5 = 2.5 -> 2, then 6.25 -> 6, then 15.625 -> 16
    assert history(ExpandingSchedule(gap_multiplier=2.5), [PASS] * 3) == [1, 3, 9, 25]
    # 1 * 3.5 = 3.5 -> 4
    assert history(ExpandingSchedule(gap_multiplier=3.5), [PASS]) == [1, 5]


def test_initial_gap_and_no_growth():
    assert history(ExpandingSchedule(initial_gap=3), [PASS, PASS]) == [3, 7, 14]  # 4.5 -> 4, 6.75 -> 7
    assert history(ExpandingSchedule(gap_multiplier=1), [PASS] * 4) == [1, 2, 3, 4, 5]


def test_fixed_ignores_recall():
    assert history(FixedSchedule(initial_gap=3), [PASS, FAIL, PASS]) == [3, 6, 9, 12]


@pytest.mark.parametrize(("threshold", "recall", "passed"), [(95, 95.0, True), (95, 94.99, False), (0, 0.0, True)])
def test_reaching_the_threshold_passes(threshold, recall, passed):
    schedule = ExpandingSchedule(mastery_threshold=threshold)
    assert schedule.review(schedule.start(), recall)[1] is passed


def test_twenty_epochs_and_ten_tasks_of_passes_are_fifty_checks():
    schedule, checks = ExpandingSchedule(), 0
    for _ in range(10):
        state = schedule.start()
        for epoch in range(1, 21):
            if epoch == state.next_epoch:
                checks += 1
                state, _ = schedule.review(state, PASS)
    assert checks == 50


def test_a_thousand_passes_do_not_overflow():
    state, schedule = ExpandingSchedule().start(), ExpandingSchedule(gap_multiplier=1e6)
    for _ in range(1000):
        state, _ = schedule.review(state, PASS)
    assert state.gap == LONGEST_GAP


def test_review_is_pure():
    schedule = ExpandingSchedule()
    state = schedule.start()
    assert schedule.review(state, PASS) == schedule.review(state, PASS)
    assert state == schedule.start()


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_round_trip_through_json(name):
    schedule = SCHEDULES.get(name)(initial_gap=2, gap_multiplier=1.7, mastery_threshold=50)
    state, _ = schedule.review(schedule.start(), 80.0)
    assert type(schedule).from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    assert ScheduleState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


@pytest.mark.parametrize(
    "bad",
    [
        {"initial_gap": 0.5},
        {"initial_gap": float("inf")},
        {"gap_multiplier": 0.99},
        {"gap_multiplier": float("nan")},
        {"mastery_threshold": 100.1},
        {"mastery_threshold": -1},
    ],
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        ExpandingSchedule(**bad)


@pytest.mark.parametrize("recall", [-0.1, 100.1, float("nan")])
def test_impossible_recall_is_refused(recall):
    with pytest.raises(SpecError, match="recall"):
        ExpandingSchedule().review(ExpandingSchedule().start(), recall)


def test_importable_without_torch():
    code = "import sys, tfcsr.recall.schedule; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
