"""Evaluations after some tasks only: what is learned is the same, and what was not asked is not known."""

import copy
import dataclasses
import json

import pytest
import torch
from rich.console import Console

from tests.conftest import make_spec, make_training
from tfcsr import run
from tfcsr.data.tasks import TaskSequence
from tfcsr.errors import OutputError
from tfcsr.experiments.reading import Results
from tfcsr.experiments.record import Record, Records
from tfcsr.experiments.result import Result
from tfcsr.methods import learner as of_methods
from tfcsr.reporting.figures import figure
from tfcsr.reporting.progress import RunDisplay
from tfcsr.reporting.series import grouped
from tfcsr.reporting.tables import as_text, run_summary, run_table
from tfcsr.reporting.view import document
from tfcsr.testing import striped_dataset

FIELDS = {"method": "tfcsr", "tasks": 6, "epochs": 2}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The folder of a run that was evaluated after each task, and of one after tasks 4 and 6."""
    place = tmp_path_factory.mktemp("runs")
    for every in (1, 4):
        run(make_spec(**FIELDS, evaluate_every=every, out=str(place / f"every{every}")), progress=False)
    return place


def read(folder) -> Result:
    return Result.from_dict(json.loads((folder / "result.json").read_text()))


def test_what_was_not_asked_is_none_and_the_rest_is_the_same(both):
    always, rarely = read(both / "every1"), read(both / "every4")
    assert always.evaluated == [1, 2, 3, 4, 5, 6]
    assert rarely.evaluated == [4, 6]
    for name in ("accuracy_matrix", "class_accuracy", "accuracy_after_task", "recall_asked", "recall_right"):
        expected = [row if task in (4, 6) else None for task, row in enumerate(getattr(always, name), start=1)]
        assert getattr(rarely, name) == expected, name
    same = {"final_accuracy", "weights_sha256", "probes", "untrained_accuracy", "optimizer_steps", "epochs_per_task"}
    for name in same:
        assert getattr(rarely, name) == getattr(always, name), name
    assert rarely.spec == always.spec | {"evaluate_every": 4, "out": rarely.spec["out"]}


def test_a_run_that_is_evaluated_less_often_is_another_run():
    assert make_spec(**FIELDS).key() == make_spec(**FIELDS, evaluate_every=1).key()
    assert make_spec(**FIELDS).key() != make_spec(**FIELDS, evaluate_every=2).key()


def test_events_say_what_was_not_asked(both):
    lines = [json.loads(line) for line in (both / "every4" / "events.jsonl").read_text().splitlines()]
    ended = {line["task"]: line for line in lines if line["event"] == "task_finished"}
    assert [ended[task]["row"] is None for task in range(1, 7)] == [True, True, True, False, True, False]
    assert [ended[task]["accuracy"] is None for task in range(1, 7)] == [True, True, True, False, True, False]
    assert all(line["epochs"] == 2 for line in ended.values())


def test_a_run_under_way_is_read(both, tmp_path):
    for name in ("spec.json", "events.jsonl"):
        (tmp_path / name).write_bytes((both / "every4" / name).read_bytes())
    results = Results(tmp_path)
    results.look()
    (there,) = results.runs
    assert there.told.unread == 0
    assert there.accuracies == read(both / "every4").accuracy_after_task
    assert there.told.share(6) == 1.0
    assert json.loads(document(results))["groups"][0]["series"][0]["columns"] == [4, 6]


def test_the_page_shows_the_tasks_that_were_evaluated(both):
    results = Results(both)
    results.look()
    page = json.loads(document(results))
    one = {series["spec"]["evaluate_every"]: series for group in page["groups"] for series in group["series"]}
    assert one["4"]["columns"] == [4, 6]
    assert one["4"]["curve"] == [one["1"]["curve"][3], one["1"]["curve"][5]]
    assert one["4"]["matrix"][1] == [one["1"]["matrix"][5][3], one["1"]["matrix"][5][5]]
    assert all(len(row) == 2 for row in one["4"]["retention"]["rows"])
    assert any("every 4 tasks" in note for note in page["groups"][0]["summary"]["beware"])


@pytest.mark.parametrize("name", ["curves", "matrix", "retention", "overview", "final"])
def test_figures_show_them(both, name):
    results = Results(both / "every4")
    results.look()
    (group,) = grouped(results.runs)
    drawn = figure(name, group)
    if name == "curves":
        assert drawn.axes[0].lines[0].get_xdata().tolist() == [4, 6]
    if name in ("matrix", "retention"):
        assert [tick.get_text() for tick in drawn.axes[0].get_xticklabels()] == ["4", "6"]


def test_the_table_of_a_run(both):
    text = as_text(run_table(read(both / "every4")))
    assert "evaluated after 2 of 6 tasks" in text
    assert "task 4" in text
    assert "task 5" not in text
    lonely = dataclasses.replace(read(both / "every4"), forgetting=None, backward_transfer=None)
    assert "forgetting undefined with one evaluation" in run_summary(lonely)[0]


def test_the_table_of_very_many_tasks_shows_some():
    tasks = 2000
    rows = [[50.0] * tasks if task % 20 == 0 else None for task in range(1, tasks + 1)]
    result = Result(**read_of(tasks, rows))
    text = as_text(run_table(result))
    assert "50 of 100 evaluations are shown" in text
    assert len(text) < 50_000


def read_of(tasks, rows):
    values = make_result()
    after = [None if row is None else 50.0 for row in rows]
    return values | {"accuracy_matrix": rows, "accuracy_after_task": after, "epochs_per_task": [1] * tasks}


def make_result():
    training = make_training(**FIELDS)
    training.run()
    return vars(Result.of(training, {}, {}))


def test_the_display_says_a_line_for_each_evaluation():
    console = Console(width=200, record=True, force_terminal=False)
    spec = make_spec(**FIELDS, evaluate_every=4)
    with console.capture() as said, RunDisplay(spec, console) as display:
        make_training((display,), **FIELDS, evaluate_every=4).run()
    assert [f"task {task}/6" in said.get() for task in range(1, 7)] == [False, False, False, True, False, True]


def test_a_run_that_was_stopped_goes_on_to_the_same(both):
    states = []
    training = make_training(**FIELDS, evaluate_every=4)
    training.run(lambda: states.append((training.task_number, copy.deepcopy(training.state_dict()))))
    for number, state in states:
        again = make_training(**FIELDS, evaluate_every=4)
        if number in (3, 5, 6):
            again.load_state_dict(state)
            again.run()
            assert again.weights_sha256() == training.weights_sha256()
            for name in ("accuracy_matrix", "class_accuracy", "recall_asked", "recall_right"):
                assert getattr(again, name) == getattr(training, name), (number, name)
    other = make_training(**FIELDS, evaluate_every=2)
    with pytest.raises(ValueError, match="accuracies of other"):
        other.load_state_dict(states[-1][1])


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy_after_task": [None] * 6},
        {"accuracy_after_task": [1.0] * 6},
        {"class_accuracy": [None] * 6},
        {"accuracy_matrix": [None] * 6, "class_accuracy": [None] * 6, "accuracy_after_task": [None] * 6},
    ],
)
def test_a_file_that_contradicts_itself_is_damaged(both, change):
    values = json.loads((both / "every4" / "result.json").read_text())
    with pytest.raises(OutputError, match="after which tasks it was evaluated"):
        Result.from_dict(values | change)


def test_a_study_has_no_use_for_it(both):
    with pytest.raises(OutputError, match=r"evaluated after 2 of 6 tasks: a record needs evaluate_every 1"):
        Record.of(read(both / "every4"))
    assert [record.spec["evaluate_every"] for record in Records.read(both).runs] == [1]


@pytest.mark.parametrize("scenario", ["class", "task"])
def test_many_scores_are_asked_for_in_blocks(monkeypatch, scenario):
    fields = {"method": "er", "tasks": 3, "epochs": 1, "scenario": scenario}
    whole = make_training(**fields)
    whole.run()
    monkeypatch.setattr(of_methods, "PART_ON_GPU", 7)
    monkeypatch.setattr(of_methods, "MOST_SCORES", 1)
    parts = make_training(**fields)
    sizes = []
    predict = parts.method.predict
    parts.method.predict = lambda x: sizes.append(len(x)) or predict(x)
    parts.run()
    assert max(sizes) == 7
    assert parts.recall_right == whole.recall_right
    assert parts.accuracy_matrix == whole.accuracy_matrix
    assert parts.collapsed == whole.collapsed


def test_a_class_is_looked_for_once():
    """The rows of a task are those of its classes, in the order of the file, however the labels lie."""
    dataset = striped_dataset()
    tasks = TaskSequence(dataset, 3, (3, 1, 2, 0, 5, 4))
    for number, members in enumerate(((3, 1), (2, 0), (5, 4)), start=1):
        task = tasks.task(number)
        expected = [row for label in members for row in range(len(dataset.train_y)) if dataset.train_y[row] == label]
        assert torch.equal(task.train.x, torch.from_numpy(dataset.train_x[expected]))
        assert task.train.y.tolist() == dataset.train_y[expected].tolist()
        asked = [row for label in members for row in range(len(dataset.test_y)) if dataset.test_y[row] == label]
        assert torch.equal(task.test.x, torch.from_numpy(dataset.test_x[asked]))
