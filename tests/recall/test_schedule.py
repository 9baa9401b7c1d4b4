import itertools
import json
import subprocess
import sys

import pytest

from tfcsr.errors import SpecError
from tfcsr.recall.schedule import (
    LONGEST_GAP,
    SCHEDULES,
    ExpandingSchedule,
    FixedSchedule,
    FsrsSchedule,
    LeitnerSchedule,
    RetentionSchedule,
    Schedule,
    ScheduleState,
    Sm2Schedule,
)
from tfcsr.recall.schedule.fsrs import epochs_until, retained, stability_of
from tfcsr.testing import SCHEDULE_CHECKS

PASS, FAIL = 100.0, 0.0
OURS = ["expanding", "fixed", "fsrs", "leitner", "sm2"]
GRADED = [LeitnerSchedule, Sm2Schedule, FsrsSchedule]


def history(schedule: Schedule, recalls: list[float], after: int = 0) -> list[int]:
    """The epochs at which probes fire, one more than there are recalls."""
    state = schedule.start(after)
    epochs = [state.next_epoch]
    for recall in recalls:
        state, _ = schedule.review(state, recall)
        epochs.append(state.next_epoch)
    return epochs


def gaps(schedule: Schedule, recalls: list[float]) -> list[int]:
    """The epochs from each probe to the next."""
    epochs = history(schedule, recalls)
    return [later - earlier for earlier, later in itertools.pairwise(epochs)]


@pytest.mark.parametrize("check", SCHEDULE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", OURS)
def test_all_keep_to_the_contract(name, check):
    check(name)


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


# Other values than the defaults.
OTHERS = {
    "initial_gap": 2.0,
    "gap_multiplier": 1.7,
    "mastery_threshold": 50.0,
    "retention_target": 80.0,
    "boxes": 3,
    "second_gap": 4.0,
    "initial_stability": 3.0,
}


@pytest.mark.parametrize("name", OURS)
def test_round_trip_through_json(name):
    schedule = SCHEDULES.get(name)(**{option.name: OTHERS[option.name] for option in SCHEDULES.options(name)})
    assert type(schedule).from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    state = schedule.start(7)
    for recall in (90.0, 80.0, 85.5, 20.0, 99.9):
        state, _ = schedule.review(state, recall)
        kept = json.dumps(state.to_dict(), allow_nan=False)
        assert schedule.read(json.loads(kept)) == state
        assert type(state).from_dict(json.loads(kept)) == state


@pytest.mark.parametrize("name", OURS)
def test_every_option_decides_something(name):
    """So none is an option by mistake."""

    def seen(schedule):
        state, found = schedule.start(), []
        for recall in (100.0, 100.0, 100.0, 92.0, 85.0, 70.0, 100.0):
            state, passed = schedule.review(state, recall)
            found.append((state, passed))
        return found

    entry = SCHEDULES.get(name)
    for option in SCHEDULES.options(name):
        assert seen(entry(**{option.name: OTHERS[option.name]})) != seen(entry()), option.name
        assert getattr(entry(), option.name) == option.default


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("damaged", ["gap", "next_epoch", 3, None, [1, 2]])
def test_a_state_that_is_none_is_refused(name, damaged):
    schedule = SCHEDULES.get(name)()
    values = schedule.start().to_dict()
    if isinstance(damaged, str):
        del values[damaged]
    else:
        values = damaged
    with pytest.raises(SpecError, match="state of") as refused:
        schedule.read(values)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        *(("expanding", "gap", value) for value in (0.5, LONGEST_GAP * 2, float("nan"), "2", True, None)),
        *(("expanding", "next_epoch", value) for value in (0, 2.5, "3", False)),
        *(("leitner", "box", value) for value in (-1, 20, 1.5, "1")),
        *(("sm2", "ease", value) for value in (1.29, 1e7, 10**400, float("inf"), float("nan"), "2")),
        *(("sm2", "passes", value) for value in (-1, 0.5)),
        *(("fsrs", "stability", value) for value in (0.0, -1, 1e7, float("nan"), [])),
        *(("fsrs", "answers", value) for value in (0, 4, 1.5)),
    ],
)
def test_an_impossible_state_is_refused(name, field, value):
    schedule = SCHEDULES.get(name)()
    with pytest.raises(SpecError, match=field) as refused:
        schedule.read(schedule.start().to_dict() | {field: value})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("schedule", GRADED)
def test_the_state_of_another_schedule_is_refused(schedule):
    with pytest.raises(SpecError, match=r"needs a \w+State, not a ScheduleState: take it from start"):
        schedule().review(ExpandingSchedule().start(), 100.0)
    with pytest.raises(SpecError, match="a state of this schedule has a"):
        schedule().read(ExpandingSchedule().start().to_dict())


@pytest.mark.parametrize("name", OURS)
def test_an_item_may_come_at_any_epoch(name):
    schedule, recalls = SCHEDULES.get(name)(initial_gap=2.0), [PASS, 91.0, FAIL, PASS, 50.0, PASS, PASS]
    assert schedule.start(137).next_epoch == 139
    assert history(schedule, recalls, after=137) == [137 + epoch for epoch in history(schedule, recalls)]


@pytest.mark.parametrize("after", [-1, 1.5, "2", None, True])
def test_an_item_cannot_come_at_no_epoch(after):
    with pytest.raises(SpecError, match=r"after .* is no epoch"):
        ExpandingSchedule().start(after)


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


@pytest.mark.parametrize(
    ("schedule", "bad"),
    [
        *(
            (schedule, {"initial_gap": value})
            for schedule in GRADED
            for value in (0.5, float("inf"), float("nan"), "x")
        ),
        *((schedule, {"retention_target": value}) for schedule in GRADED for value in (0, 99.5, float("nan"), True)),
        *((LeitnerSchedule, {"boxes": value}) for value in (0, 21, 2.5, None)),
        *((Sm2Schedule, {"second_gap": value}) for value in (0.5, LONGEST_GAP * 2)),
        *((FsrsSchedule, {"initial_stability": value}) for value in (0, -1, LONGEST_GAP * 2, float("nan"))),
    ],
)
def test_impossible_settings_are_refused_by_those_that_grade(schedule, bad):
    with pytest.raises(SpecError, match=next(iter(bad))) as refused:
        schedule(**bad)
    assert "\n" not in str(refused.value)


def test_who_is_fed_with_retention():
    assert {name: SCHEDULES.get(name).relative for name in OURS} == {
        "expanding": False,
        "fixed": False,
        "fsrs": True,
        "leitner": True,
        "sm2": True,
    }


@pytest.mark.parametrize("schedule", GRADED)
def test_those_that_grade_have_no_threshold_of_recall(schedule):
    """Given, it would decide nothing."""
    with pytest.raises(TypeError, match="mastery_threshold"):
        schedule(mastery_threshold=50.0)
    assert schedule(retention_target=80).pass_mark == 80
    assert [schedule().review(schedule().start(), recall)[1] for recall in (89.99, 90.0)] == [False, True]


@pytest.mark.parametrize("schedule", GRADED)
@pytest.mark.parametrize("target", [1, 50, 90, 99])
def test_perfect_answers_make_gaps_grow_to_a_bound(schedule, target):
    found = gaps(schedule(retention_target=target), [PASS] * 200)
    assert found == sorted(found)
    assert found[-1] == found[-2]
    assert found[-1] == 16 if schedule is LeitnerSchedule else 80_000 < found[-1] <= LONGEST_GAP


@pytest.mark.parametrize("schedule", GRADED)
@pytest.mark.parametrize("target", [1, 50, 90, 99])
def test_bad_answers_bring_the_next_probe_in_the_next_epoch(schedule, target):
    assert history(schedule(retention_target=target), [FAIL] * 9) == list(range(1, 11))
    assert gaps(schedule(retention_target=target), [PASS] * 6 + [FAIL] * 3)[-1] == 1


@pytest.mark.parametrize("schedule", GRADED)
def test_a_better_answer_is_never_due_sooner(schedule):
    state = schedule().start()
    for recall in (PASS, PASS, 95.0, PASS):
        state, _ = schedule().review(state, recall)
    due = [schedule().review(state, recall / 2)[0].next_epoch for recall in range(201)]
    assert due == sorted(due)
    assert due[0] < due[-1]


def test_leitner_all_pass_climbs_to_the_last_box():
    assert history(LeitnerSchedule(), [PASS] * 7) == [1, 3, 7, 15, 31, 47, 63, 79]
    assert gaps(LeitnerSchedule(boxes=3), [PASS] * 4) == [2, 4, 4, 4]
    assert gaps(LeitnerSchedule(boxes=1), [PASS] * 4) == [1, 1, 1, 1]
    assert gaps(LeitnerSchedule(initial_gap=3), [PASS, PASS, FAIL]) == [6, 12, 3]
    assert gaps(LeitnerSchedule(initial_gap=LONGEST_GAP), [PASS]) == [LONGEST_GAP]


def test_leitner_falls_back_to_the_first_box():
    assert gaps(LeitnerSchedule(), [PASS, PASS, PASS, FAIL, PASS, PASS]) == [2, 4, 8, 1, 2, 4]
    assert gaps(LeitnerSchedule(), [PASS, FAIL] * 3) == [2, 1] * 3
    # How good a pass is makes no difference.
    assert gaps(LeitnerSchedule(), [90.0] * 6) == gaps(LeitnerSchedule(), [PASS] * 6)


def test_leitner_with_fewer_boxes_takes_an_item_down():
    """A state of a schedule with more of them."""
    state = LeitnerSchedule(boxes=9).start()
    for _ in range(8):
        state, _ = LeitnerSchedule(boxes=9).review(state, PASS)
    assert LeitnerSchedule(boxes=3).review(state, PASS)[0].gap == 4


def test_sm2_all_pass():
    # Perfect answers: the ease is 2.6, 2.7, 2.8, ... and the gaps 3, 3 · 2.7, 8 · 2.8, 22 · 2.9, 64 · 3
    assert gaps(Sm2Schedule(), [PASS] * 5) == [3, 8, 22, 64, 192]
    # As Wozniak has it, in days, with the grade 4, which leaves the ease: 1, 6, 6 · 2.5, 15 · 2.5, 38 · 2.5
    assert history(Sm2Schedule(second_gap=6), [95.0] * 4) == [1, 7, 22, 60, 155]


def test_sm2_failure_starts_over_and_keeps_the_ease():
    assert gaps(Sm2Schedule(), [FAIL] * 4) == [1, 1, 1, 1]
    assert gaps(Sm2Schedule(), [PASS, FAIL] * 3) == [3, 1] * 3
    assert gaps(Sm2Schedule(initial_gap=2), [PASS, PASS, FAIL, PASS, PASS]) == [3, 8, 2, 3, 9]  # 3 · 2.9
    schedule = Sm2Schedule()
    state, _ = schedule.review(schedule.start(), PASS)
    assert state.ease == pytest.approx(2.6)
    failed, _ = schedule.review(state, FAIL)
    assert (failed.ease, failed.passes, failed.gap) == (state.ease, 0, 1)


def test_sm2_barely_passing_makes_an_item_hard():
    """The grade 3 takes 0.14 off the ease, down to 1.3."""
    schedule = Sm2Schedule()
    state, eases = schedule.start(), []
    for _ in range(12):
        state, _ = schedule.review(state, 90.0)
        eases.append(round(state.ease, 6))
    assert eases[:3] == [2.36, 2.22, 2.08]
    assert eases[-1] == 1.3


@pytest.mark.parametrize("target", [1, 50, 90, 99])
def test_sm2_grades(target):
    grade = Sm2Schedule(retention_target=target).grade
    assert [grade(0), grade(target), grade(100)] == pytest.approx([0, 3, 5])
    assert grade(target / 3) == pytest.approx(1)
    assert grade((target + 100) / 2) == pytest.approx(4)


def test_the_curve():
    assert retained(0, 5) == 1
    assert retained(5, 5) == pytest.approx(0.9)
    for stability in (0.1, 1, 7, 1000):
        for share in (0.3, 0.9, 0.99):
            epochs = epochs_until(share, stability)
            assert retained(epochs, stability) == pytest.approx(share)
            assert stability_of(share, epochs) == pytest.approx(stability)


def learner(schedule: FsrsSchedule, stability: float, reviews: int, growth: float = 1.0, noise: float = 0.0):
    """What the schedule makes of somebody who forgets by the curve: the true stabilities and those it has found."""
    state, true, found = schedule.start(), [], []
    for number in range(reviews):
        retention = 100 * retained(round(state.gap), stability) + (noise if number % 2 else -noise)
        state, _ = schedule.review(state, min(retention, 100))
        true.append(stability)
        found.append(state.stability)
        stability *= growth
    return true, found


@pytest.mark.parametrize("target", [70, 90, 97])
@pytest.mark.parametrize("stability", [1.0, 3.0, 12.0, 40.0, 150.0])
def test_fsrs_finds_how_fast_a_learner_forgets(stability, target):
    _, found = learner(FsrsSchedule(retention_target=target), stability, 16)
    assert all(value == pytest.approx(stability, rel=0.2) for value in found[14:])
    # It comes from below: no probe is missed on the way.
    assert max(found) <= stability * 1.01


def test_fsrs_takes_one_answer_to_see_that_it_hoped_for_too_much():
    schedule = FsrsSchedule(initial_stability=50, initial_gap=20)
    _, found = learner(schedule, 4.0, 3)
    assert found == pytest.approx([4.0, 4.0, 4.0])


def test_fsrs_follows_a_learner_who_forgets_less_with_every_review():
    true, found = learner(FsrsSchedule(), 2.0, 20, growth=1.2)
    ratios = [f / t for f, t in zip(found, true, strict=True)]
    assert all(0.4 < ratio < 1.01 for ratio in ratios)


def test_fsrs_stays_about_right_where_answers_are_noisy():
    _, found = learner(FsrsSchedule(), 12.0, 60, noise=2.0)
    assert all(6 < value < 24 for value in found[20:])


def test_fsrs_all_pass():
    assert history(FsrsSchedule(), [PASS] * 8) == [1, 3, 7, 13, 22, 36, 58, 92, 145]


@pytest.mark.parametrize("stability", [1, 2, 10, 500])
def test_fsrs_keeps_to_a_gap_after_which_as_much_is_retained_as_hoped(stability):
    schedule = FsrsSchedule(initial_stability=stability, initial_gap=stability)
    assert gaps(schedule, [90.0] * 12) == [stability] * 12


def test_fsrs_alternating():
    """After a failure it takes more than one pass until an epoch is left out."""
    assert gaps(FsrsSchedule(), [PASS, FAIL] * 4) == [2, 1, 1, 1, 1, 1, 1, 1]
    assert gaps(FsrsSchedule(), [PASS] * 8 + [FAIL] + [PASS] * 4)[8:] == [1, 1, 1, 2, 3]


def test_fsrs_shortens_the_gap_by_what_was_forgotten():
    """A failure is no cliff: what is just below the target makes it a little shorter."""
    schedule = FsrsSchedule(initial_stability=100, initial_gap=100)
    assert gaps(schedule, [90.0]) == [100]
    assert [gaps(schedule, [recall])[0] for recall in (89.0, 80.0, 50.0, 10.0)] == [89, 42, 8, 1]


class Plain(Schedule):
    """Written before there was anything but `_after`: not even a dataclass."""

    def _after(self, state, passed):
        return ScheduleState(state.gap, state.next_epoch + (2 if passed else 1))


class Halving(RetentionSchedule):
    """The least that a schedule by retention has to say."""

    def _reviewed(self, state, recall, passed):
        return ScheduleState(state.gap, state.next_epoch + 1 + round(recall / 50))


@pytest.mark.parametrize(
    ("kind", "expected"), [(Plain, [1, 3, 4, 6]), (Halving, [1, 4, 5, 8])], ids=lambda value: str(value)[:40]
)
def test_a_schedule_of_ones_own(kind, expected):
    SCHEDULES.add("own")(kind)
    try:
        for check in SCHEDULE_CHECKS:
            check("own")
        schedule = SCHEDULES.get("own")()
        assert history(schedule, [PASS, FAIL, PASS]) == expected
        assert schedule.read({"gap": 2.0, "next_epoch": 5}) == ScheduleState(2.0, 5)
    finally:
        SCHEDULES.remove("own")


def test_a_damaged_checkpoint_is_told_from_a_wrong_setting():
    """Whoever loads it then names the file."""
    from tests.conftest import make_training

    method = make_training(method="tfcsr", schedule="sm2").method
    state = method.state_dict()
    assert state["schedule"].items() >= {"gap": 1.0, "next_epoch": 1, "ease": 2.5, "passes": 0}.items()
    method.load_state_dict(state | {"schedule": state["schedule"] | {"ease": 2.7}})
    assert method.agenda.memory.ease == 2.7
    for damaged in ({"gap": 1.0, "next_epoch": 1}, state["schedule"] | {"ease": 0.0}, 3):
        with pytest.raises(ValueError, match=r"ease|state"):
            method.load_state_dict(state | {"schedule": damaged})


def test_where_a_schedule_is_found():
    """A plugin's fingerprint names what it derives from: moved elsewhere, every result of it would look stale."""
    import tfcsr.recall.schedule as package

    for kind in (Schedule, ScheduleState, ExpandingSchedule, FixedSchedule):
        assert (kind.__module__, getattr(package, kind.__name__)) == ("tfcsr.recall.schedule", kind)
    with pytest.raises(AttributeError, match="nope"):
        package.nope  # noqa: B018


def test_importable_without_torch():
    code = (
        "import sys\n"
        "from tfcsr.recall.schedule import SCHEDULES, FsrsSchedule, LeitnerSchedule, Sm2Schedule\n"
        "state = FsrsSchedule().review(FsrsSchedule().start(), 95.0)\n"
        f"assert all(SCHEDULES.options(name) for name in {OURS})\n"
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
