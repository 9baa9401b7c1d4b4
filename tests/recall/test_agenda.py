"""What is due when: of the memory as a whole the schedule alone decides; each class has a schedule of its own."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcsr.recall.agenda import Agenda
from tfcsr.recall.probe import Recall
from tfcsr.recall.schedule import (
    SCHEDULES,
    ExpandingSchedule,
    FixedSchedule,
    FsrsSchedule,
    LeitnerSchedule,
    Schedule,
    Sm2Schedule,
)

PASS, FAIL = 100.0, 0.0
OURS = [ExpandingSchedule(), FixedSchedule(2.0), FsrsSchedule(), LeitnerSchedule(), Sm2Schedule()]
ABSOLUTE = [schedule for schedule in OURS if not schedule.relative]
RELATIVE = [schedule for schedule in OURS if schedule.relative]
by_name = {"ids": lambda schedule: type(schedule).__name__}
few = settings(max_examples=25)
recalls = st.sampled_from([0.0, 50.0, 89.0, 91.0, 97.0, 100.0])


def recall(n: int = 10, **found: float) -> Recall:
    """Of class 1 this much, `c1=50`, each asked with so many examples."""
    per_class = {int(name[1:]): value for name, value in found.items()}
    overall = sum(per_class.values()) / len(per_class) if per_class else 0.0
    return Recall(overall, per_class, dict.fromkeys(per_class, n))


def again(agenda: Agenda) -> Agenda:
    """One that goes on from what this one wrote, by way of a file."""
    other = Agenda(agenda.schedule, by_class=agenda.by_class)
    other.load(json.loads(json.dumps(agenda.to_dict())))
    return other


def test_every_schedule_that_ships_is_tried():
    assert {SCHEDULES.get(name) for name in SCHEDULES.names() if SCHEDULES.ships(name)} == {type(s) for s in OURS}


# The memory as a whole


def fired(agenda: Agenda, epochs: int, found: Recall | None) -> list[int]:
    """The epochs of a task in which the memory is due, where it is asked each time."""
    epochs_due = []
    for epoch in range(1, epochs + 1):
        due = agenda.due(epoch)
        assert due in (None, [])
        if due is None:
            epochs_due.append(epoch)
            agenda.review(due, epoch, found)
        agenda.end_epoch()
    return epochs_due


@pytest.mark.parametrize("found", [Recall(PASS, {}), None], ids=["all recalled", "nobody asks"])
def test_the_papers_history_in_every_task(found):
    agenda = Agenda(ExpandingSchedule())
    for old in ([], [0, 1], [0, 1, 2, 3]):
        agenda.begin_task(old)
        assert fired(agenda, 20, found) == [1, 3, 5, 8, 13]
    assert agenda.epochs == 60
    assert agenda.classes == {}


def test_a_failure_brings_the_very_next_epoch():
    agenda = Agenda(ExpandingSchedule())
    agenda.begin_task([])
    assert fired(agenda, 6, Recall(94.9, {})) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("schedule", OURS, **by_name)
@few
@given(tasks=st.lists(st.lists(recalls, max_size=12), min_size=1, max_size=3))
def test_the_memory_as_a_whole_is_the_schedule_alone(schedule, tasks):
    """Whatever is recalled, in every task anew; and also by way of a file before and after every epoch."""
    agenda = Agenda(schedule)
    for found in tasks:
        # What there was is whole: retention is recall.
        agenda.begin_task([7], recall(c7=100.0) if schedule.relative else None)
        state, asked = schedule.start(), iter(found)
        for epoch in range(1, 30):
            agenda = again(agenda)
            due = agenda.due(epoch)
            assert (due is None) == (epoch == state.next_epoch)
            value = next(asked, None) if due is None else None
            if due is None and value is not None:
                state, passed = schedule.review(state, value)
                assert agenda.review(due, epoch, recall(c7=value)) == (passed, state.next_epoch)
            assert agenda.memory == state
            agenda = again(agenda)
            agenda.end_epoch()


def test_a_passed_probe_says_when_the_next_is_due():
    agenda = Agenda(ExpandingSchedule())
    agenda.begin_task([])
    assert agenda.review(None, 1, Recall(PASS, {})) == (True, 3)
    assert agenda.review(None, 3, Recall(FAIL, {})) == (False, 4)


# Each class by itself


def test_a_class_comes_on_the_agenda_after_its_own_task():
    agenda = Agenda(ExpandingSchedule(), by_class=True)
    agenda.begin_task([])  # the first task: nothing is old
    for epoch in range(1, 5):
        assert agenda.due(epoch) == []
        agenda.end_epoch()
    agenda.begin_task([3, 5])
    assert agenda.due(1) == [3, 5]
    assert agenda.review([3, 5], 1, recall(c3=PASS, c5=PASS)) == (True, 3)
    agenda.end_epoch()
    agenda.begin_task([3, 5, 1])  # after one epoch: its time goes on, and only the newest one's begins
    assert agenda.due(1) == [1]


def test_time_goes_on_over_tasks():
    """Passed at the 1st, 3rd, 5th and 8th epoch of its life: in tasks of three epochs, in epochs 1, 3, 2 and 2."""
    agenda, seen = Agenda(ExpandingSchedule(), by_class=True), []
    for task in range(1, 5):
        agenda.begin_task([] if task == 1 else [0])
        for epoch in range(1, 4):
            if due := agenda.due(epoch):
                seen.append((task, epoch))
                agenda.review(due, epoch, recall(c0=PASS))
            agenda.end_epoch()
    assert seen == [(2, 1), (2, 3), (3, 2), (4, 2)]


def test_asked_late_it_counts_from_now():
    agenda = Agenda(ExpandingSchedule(), by_class=True)
    agenda.begin_task([0])
    for epoch in range(1, 5):
        assert agenda.due(epoch) == [0]  # and nobody asks
        agenda.end_epoch()
    assert agenda.review([0], 5, recall(c0=PASS)) == (True, 7)
    assert agenda.classes[0].next_epoch == 7


def test_each_class_passes_or_fails_by_its_own_recall():
    agenda = Agenda(ExpandingSchedule(), by_class=True)
    agenda.begin_task([0, 1])
    # Overall it is 50 %, which would be a failure of both.
    assert agenda.review([0, 1], 1, recall(c0=PASS, c1=FAIL)) == (False, 2)
    assert [agenda.classes[label].next_epoch for label in (0, 1)] == [3, 2]
    agenda.end_epoch()
    assert agenda.due(2) == [1]
    assert agenda.review([1], 2, recall(c0=FAIL, c1=PASS)) == (True, 3)  # of 0 nothing is wanted now
    assert [agenda.classes[label].next_epoch for label in (0, 1)] == [3, 4]


@pytest.mark.parametrize("schedule", OURS, **by_name)
@few
@given(
    tasks=st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.tuples(recalls, recalls, recalls), min_size=9, max_size=9)),
        min_size=1,
        max_size=4,
    )
)
def test_every_class_has_a_schedule_of_its_own(schedule: Schedule, tasks):
    """Task by task a class more, each against a state of its own; by way of a file after every epoch."""
    agenda, own, time = Agenda(schedule, by_class=True), {}, 0
    for number, (epochs, found) in enumerate(tasks):
        old, begun = list(range(number)), time
        whole = dict.fromkeys((f"c{label}" for label in old), 100.0)
        agenda.begin_task(old, recall(**whole) if schedule.relative and old else None)
        for label in old:
            own.setdefault(label, schedule.start(time))
        for epoch in range(1, epochs + 1):
            time += 1
            due = agenda.due(epoch)
            assert due == [label for label, state in own.items() if state.next_epoch == time]
            if due:
                answers = []
                for label in due:
                    own[label], passed = schedule.review(own[label], found[epoch - 1][label])
                    answers.append(passed)
                says = agenda.review(due, epoch, recall(**{f"c{i}": found[epoch - 1][i] for i in old}))
                assert says == (all(answers), min(state.next_epoch for state in own.values()) - begun)
            agenda.end_epoch()
            agenda = again(agenda)
            assert agenda.classes == own
            assert agenda.epochs == time


# Retention


def retention(agenda: Agenda, found: Recall, label: int | None = None) -> float:
    """What the schedule was fed with."""
    seen = []

    class Listening(LeitnerSchedule):
        __slots__ = ()

        def review(self, state, recall):
            seen.append(recall)
            return LeitnerSchedule.review(self, state, recall)

    agenda.schedule = Listening()
    agenda.review(None if label is None else [label], 1, found)
    (value,) = seen
    return value


def begun(whole: Recall, *, by_class: bool = False, old: tuple[int, ...] = (0, 1)) -> Agenda:
    agenda = Agenda(LeitnerSchedule(), by_class=by_class)
    agenda.begin_task(old, whole)
    return agenda


def test_retention_is_recall_of_what_it_was():
    assert retention(begun(recall(c0=50.0)), recall(c0=40.0)) == pytest.approx(80)
    assert retention(begun(recall(c0=50.0), by_class=True), recall(c0=40.0), 0) == pytest.approx(80)


def test_more_than_there_was_is_all_of_it():
    assert retention(begun(recall(c0=50.0)), recall(c0=60.0)) == 100


def test_of_the_memory_the_old_classes_together():
    whole = Recall(0.0, {0: 100.0, 1: 50.0, 9: 0.0}, {0: 10, 1: 30, 9: 50})
    now = Recall(0.0, {0: 50.0, 1: 50.0, 9: 100.0}, {0: 10, 1: 30, 9: 50})  # 9 arrives: it is not old
    # Of 40 examples 10 + 15 were right; now 5 + 15.
    assert retention(begun(whole), now) == pytest.approx(80)


def test_each_class_is_compared_with_itself():
    agenda = begun(recall(c0=100.0, c1=50.0), by_class=True)
    now = recall(c0=50.0, c1=50.0)
    assert retention(agenda, now, 0) == pytest.approx(50)
    assert retention(agenda, now, 1) == pytest.approx(100)


def test_a_class_that_was_not_asked_takes_the_memorys_answer():
    # Absolute: the memory's recall, whoever it is of.
    agenda = Agenda(ExpandingSchedule(), by_class=True)
    agenda.begin_task([0])
    assert agenda.review([0], 1, recall(c1=PASS)) == (True, 3)
    # Relative: what is left of those that were asked both times.
    assert retention(begun(recall(c0=50.0, c1=100.0), by_class=True), recall(c0=40.0), 1) == pytest.approx(80)
    assert retention(begun(recall(c0=50.0), by_class=True), recall(c0=40.0, c1=0.0), 1) == pytest.approx(80)
    assert retention(begun(recall(c0=50.0, c1=100.0), old=(0, 1, 2), by_class=True), recall(c0=40.0), 2) == (
        pytest.approx(80)
    )


@pytest.mark.parametrize("label", [None, 0])
def test_where_nothing_was_recalled_nothing_is_forgotten(label):
    by_class = label is not None
    assert retention(begun(recall(c0=0.0), by_class=by_class), recall(c0=0.0), label) == 100
    assert retention(begun(recall(c0=0.0), by_class=by_class), recall(c0=30.0), label) == 100


@pytest.mark.parametrize("label", [None, 0])
def test_without_a_recall_to_compare_with_it_passes(label):
    agenda = Agenda(LeitnerSchedule(), by_class=label is not None)
    agenda.begin_task([0])
    assert retention(agenda, recall(c0=0.0), label) == 100
    assert retention(begun(recall(c0=50.0), by_class=label is not None), Recall(PASS, {}), label) == 100


def test_each_task_measures_anew_what_is_whole():
    agenda = begun(recall(c0=100.0))
    agenda.begin_task([0], recall(c0=50.0))
    assert retention(agenda, recall(c0=40.0)) == pytest.approx(80)
    agenda.begin_task([0])
    assert retention(agenda, recall(c0=40.0)) == 100


@pytest.mark.parametrize("schedule", ABSOLUTE, **by_name)
def test_a_schedule_that_goes_by_recall_does_not_look_at_what_it_was(schedule):
    seen = []
    for whole in (None, recall(c0=50.0)):
        agenda = Agenda(schedule)
        agenda.begin_task([0], whole)
        seen.append(agenda.review(None, 1, recall(c0=80.0)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("schedule", RELATIVE, **by_name)
@few
@given(whole=st.floats(0, 100), now=st.floats(0, 100), n=st.integers(1, 300), m=st.integers(1, 300))
def test_whatever_was_found_can_be_reviewed(schedule, whole, now, n, m):
    """Retention stays within 0..100, whatever the numbers are rounded to."""
    for by_class, due in ((True, [0, 1]), (False, None)):
        agenda = Agenda(schedule, by_class=by_class)
        agenda.begin_task([0, 1], Recall(whole, {0: whole, 1: now}, {0: n, 1: m}))
        agenda.review(due, 1, Recall(now, {0: now, 1: whole}, {0: m, 1: n}))


# The least replay


@given(least=st.integers(0, 5000), of=st.integers(1, 60), each=st.integers(1, 300))
def test_a_task_has_its_least_replay_if_it_can(least, of, each):
    """By the end of every epoch its share of it, as far as epochs that replay all can have it."""
    agenda = Agenda(ExpandingSchedule(), least=least)
    agenda.begin_task([0])
    for epoch in range(1, of + 1):
        due = agenda.due(epoch) is None
        behind = agenda.behind(epoch, of)
        if due:
            agenda.review(None, epoch, None)
        agenda.batches += each if due or behind else 0
        assert behind or agenda.batches >= least * epoch / of
        agenda.end_epoch()
    assert agenda.batches >= min(least, each * of)
    agenda.begin_task([0])
    assert agenda.batches == 0


# Kept in a file


def test_a_state_of_an_earlier_version_loads():
    agenda = Agenda(ExpandingSchedule(), by_class=True)
    agenda.load({"gap": 1.5, "next_epoch": 3})
    assert (agenda.memory.gap, agenda.memory.next_epoch) == (1.5, 3)
    assert agenda.classes == {}
    assert agenda.epochs == 0
    assert agenda.to_dict() == {"gap": 1.5, "next_epoch": 3, "epochs": 0, "batches": 0, "classes": {}, "whole": {}}


@pytest.mark.parametrize("schedule", OURS, **by_name)
def test_what_is_written_is_plain_and_comes_back(schedule):
    agenda = Agenda(schedule, by_class=True)
    agenda.begin_task([4, 2], recall(c4=50.0, c2=75.0))
    agenda.review([4, 2], 1, recall(c4=50.0, c2=0.0))
    agenda.end_epoch()
    written = agenda.to_dict()
    assert json.loads(json.dumps(written)) == written
    other = again(agenda)
    assert other.to_dict() == written
    assert list(other.classes) == [4, 2]  # in the order in which they came


GOOD = {
    "gap": 1.0,
    "next_epoch": 1,
    "epochs": 3,
    "batches": 7,
    "classes": {"1": {"gap": 1.0, "next_epoch": 4}},
    "whole": {"1": 50.0},
}


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        None,
        [],
        5,
        {"next_epoch": 1},
        GOOD | {"gap": 0},
        GOOD | {"gap": "1"},
        GOOD | {"next_epoch": 1.5},
        GOOD | {"batches": -1},
        GOOD | {"batches": 1.5},
        GOOD | {"batches": "7"},
        *(GOOD | {"epochs": value} for value in ("x", None, -1, 1.5, True, math.inf, [])),
        *(GOOD | {"classes": value} for value in (None, [], 3, {"x": {"gap": 1.0, "next_epoch": 4}})),
        *(GOOD | {"classes": {"1": value}} for value in (None, 3, {}, {"gap": 1.0}, {"gap": 1.0, "next_epoch": 0})),
        *(GOOD | {"whole": value} for value in (None, [], 3, {"x": 50.0})),
        *(GOOD | {"whole": {"1": value}} for value in ([], [50.0], "x", None)),
        *(GOOD | {"whole": {"1": value}} for value in (math.nan, -1.0, 101.0)),
    ],
)
def test_a_damaged_state_is_a_value_error(damaged):
    Agenda(ExpandingSchedule(), by_class=True).load(GOOD)
    with pytest.raises(ValueError, match=r"\w"):
        Agenda(ExpandingSchedule(), by_class=True).load(damaged)


def test_a_state_of_another_schedule_is_a_value_error():
    with pytest.raises(ValueError, match="box"):
        Agenda(LeitnerSchedule()).load(GOOD)


def test_it_needs_neither_torch_nor_numpy():
    check = (
        "import sys; from tfcsr.recall.agenda import Agenda; from tfcsr.recall.schedule import LeitnerSchedule as S\n"
        "agenda = Agenda(S(), by_class=True); agenda.begin_task([1]); agenda.review(agenda.due(1), 1, None)\n"
        "agenda.load(agenda.to_dict()); sys.exit(bool({'torch', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
