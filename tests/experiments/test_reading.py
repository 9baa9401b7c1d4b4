import json
import shutil
import signal
from pathlib import Path

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import SMALL, flags, wait_for
from tfcsr.errors import OutputError
from tfcsr.experiments.folder import list_runs
from tfcsr.experiments.reading import Results, Run
from tfcsr.files import LOCK, at_work, locked


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    tfcsr.run(make_spec(method="tfcsr", epochs=3, out=str(out)))
    return out


@pytest.fixture
def begun(whole, tmp_path) -> Path:
    """The same run before it was complete."""
    out = tmp_path / "runs" / "begun"
    out.mkdir(parents=True)
    shutil.copy(whole / "spec.json", out)
    (out / "events.jsonl").touch()
    return out


def lines(whole: Path) -> list[bytes]:
    return (whole / "events.jsonl").read_bytes().splitlines(keepends=True)


def looked(path: Path) -> Run:
    run = Run(path)
    assert run.look()
    return run


def test_a_complete_run_is_its_result_with_what_the_probes_found(whole):
    run = looked(whole)
    assert (run.state, run.words, run.name) == ("complete", "complete", "whole")
    assert run.result is not None
    assert run.accuracies == run.result.accuracy_after_task
    found = [json.loads(line) for line in lines(whole) if b'"probe"' in line]
    assert [probe.per_class for probe in run.probes()] == [
        {int(label): value for label, value in event["per_class"].items()} for event in found
    ]
    assert [(p.task, p.epoch, p.recall) for p in run.probes()] == [
        (p["task"], p["epoch"], p["recall"]) for p in run.result.probes
    ]
    assert not run.look()


def test_events_tell_the_same_as_the_result(whole, begun):
    shutil.copy(whole / "events.jsonl", begun)
    run, result = looked(begun), looked(whole).result
    assert result is not None
    assert run.state == "stopped"
    assert run.accuracies == pytest.approx(result.accuracy_after_task)
    assert run.matrix == [list(row) for row in result.accuracy_matrix]
    assert run.classes == result.classes_per_task
    assert run.told.epochs_per_task == result.epochs_per_task
    assert run.probes() == looked(whole).probes()
    assert run.told.share(run.tasks) == 1
    assert run.told.unread == 0


def test_a_run_is_followed_line_by_line_even_half_a_line(whole, begun):
    run, shares = looked(begun), []
    with (begun / "events.jsonl").open("ab", buffering=0) as file:
        for line in lines(whole):
            file.write(line[: len(line) // 2])
            run.look()
            before = run.told.share(3)
            assert before == (shares[-1] if shares else 0)
            file.write(line[len(line) // 2 :])
            assert run.look()
            shares.append(run.told.share(3))
            assert not run.look()
    assert shares == sorted(shares)
    assert sorted({round(9 * share, 6) for share in shares}) == list(range(10))  # 3 tasks of 3 epochs
    assert run.told.unread == 0
    assert run.told.matrix == [list(row) for row in looked(whole).matrix]


def test_only_what_is_new_is_read(whole, begun):
    told = lines(whole)
    (begun / "events.jsonl").write_bytes(b"".join(told[:5]))
    run = looked(begun)
    added = []
    run.told.add = added.append  # type: ignore[method-assign]
    with (begun / "events.jsonl").open("ab") as file:
        file.write(told[5])
    assert run.look()
    assert added == [told[5].rstrip(b"\n")]


@pytest.mark.parametrize("then", ["shorter", "longer"])
def test_a_resumed_runs_events_were_cut_back(whole, begun, then):
    told = lines(whole)
    (begun / "events.jsonl").write_bytes(b"".join(told[:9]))
    run = looked(begun)
    again = [line.replace(b'"time": ', b'"time": 1') for line in told[4:]]  # the same, later
    (begun / "events.jsonl").write_bytes(b"".join(told[:4] + (again[:2] if then == "shorter" else again)))
    assert run.look()
    assert run.told == looked(begun).told


def test_states(whole, begun):
    run = looked(begun)
    assert (run.state, run.words) == ("stopped", "stopped before its first epoch was done")
    with locked(begun):
        assert run.look()
        assert (run.state, run.words) == ("running", "beginning")
        (begun / "events.jsonl").write_bytes(b"".join(lines(whole)[:4]))
        assert run.look()
        assert run.words == "task 1 of 3, epoch 1 of 3"
    assert run.look()
    assert (run.state, run.words) == ("stopped", "stopped in task 1 of 3, epoch 1 of 3")
    failed = {"event": "failed", "time": 1.0, "task": 1, "epoch": 2, "step": 7, "loss": "nan"}
    with (begun / "events.jsonl").open("a") as file:
        file.write(json.dumps(failed) + "\n")
    assert run.look()
    assert (run.state, run.words) == ("failed", "the loss became nan at step 7 (task 1, epoch 2)")
    shutil.copy(whole / "result.json", begun)
    assert run.look()
    assert run.state == "complete"


def test_who_is_killed_is_no_longer_at_work(tmp_path, start):
    out = tmp_path / "run"
    process = start("run", *flags(**SMALL | {"epochs": 400, "out": out}))
    wait_for(lambda: (out / "events.jsonl").exists())
    assert looked(out).state == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (out / LOCK).exists()
    assert not at_work(out)
    assert looked(out).state == "stopped"


def test_asking_who_is_at_work_takes_no_lock(tmp_path):
    (tmp_path / LOCK).touch()
    assert not at_work(tmp_path)
    with locked(tmp_path):
        assert at_work(tmp_path)
    assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("spec.json", "", "spec.json is damaged: it is not JSON"),
        ("spec.json", "[]", "does not say benchmark, method and seed"),
        ("spec.json", '{"benchmark": "x", "method": 3, "seed": 0}', "does not say benchmark, method and seed"),
        ("spec.json", '{"benchmark": "x", "method": "er", "seed": 0, "scenario": [1]}', "damaged: scenario is [1]"),
        ("result.json", "{}", "result.json is not a result of tfcsr"),
        ("result.json", '{"a": ', "result.json is damaged"),
        ("result.json", "[" * 100_000, "result.json is damaged"),
    ],
)
def test_a_damaged_run_is_told_of(begun, file, text, said):
    (begun / file).write_text(text)
    run = looked(begun)
    assert run.state == "damaged"
    assert said in run.words
    assert str(begun) not in run.words
    assert run.spec == {}


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"3",
        b'"event"',
        b"\xff\xfe",
        b'{"event": "probe"}',
        b'{"event": ["probe"]}',
        b'{"event": "task_finished", "task": 99, "row": [1], "accuracy": 1, "epochs": 1, "time": 1}',
        b'{"event": "epoch_finished", "task": true, "epoch": 1, "epochs": 1, "time": 1}',
        b'{"event": "epoch_finished", "task": 1, "epoch": 1e99, "epochs": 1, "time": NaN}',
        b'{"event": "run_started", "tasks": 7}',
        b"[" * 100_000,
    ],
)
def test_lines_that_are_no_events_are_counted_and_change_nothing(whole, begun, line):
    told = lines(whole)
    (begun / "events.jsonl").write_bytes(b"".join([*told[:6], line + b"\n", *told[6:]]))
    run = looked(begun)
    assert run.told.unread == 1
    assert run.words.endswith("; 1 of the lines in events.jsonl cannot be read")
    assert run.matrix == [list(row) for row in looked(whole).matrix]


def test_time_left_is_by_the_pace_of_the_last_epochs(begun):
    events = [
        {"event": "run_started", "time": 0, "tasks": [[0], [1]]},
        {"event": "task_started", "task": 1, "time": 100},
    ]
    events += [{"event": "epoch_finished", "task": 1, "epoch": e, "epochs": 5, "time": 100 + 2 * e} for e in (1, 2, 3)]
    (begun / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run = looked(begun)
    assert run.told.seconds_left(2) == 2 * (2 + 5)
    assert run.told.share(2) == 0.3


def test_time_left_counts_what_lies_between_tasks_and_forgives_one_long_pause(begun):
    events = [{"event": "run_started", "time": 0, "tasks": [[0], [1], [2]]}]
    now = 100.0
    for task in (1, 2):
        events.append({"event": "task_started", "task": task, "time": now})
        for epoch in range(1, 6):
            now += 3600 if (task, epoch) == (1, 3) else 2  # it was stopped, and resumed
            events.append({"event": "epoch_finished", "task": task, "epoch": epoch, "epochs": 5, "time": now})
        row = [50.0] * 3
        now += 4
        finished = {"event": "task_finished", "task": task, "row": row, "accuracy": 50.0, "epochs": 5, "time": now}
        events.append(finished)
        now += 1
    (begun / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run = looked(begun)
    assert run.told.unread == 0
    assert run.told.seconds_left(3) == 5 * 2 + 5
    assert run.told.seconds_in_all(3) == 3 * (5 * 2 + 5)


def test_a_folder_of_runs_as_they_come_and_go(whole, begun):
    results = Results(begun.parent)
    assert results.look()
    assert [run.name for run in results.runs] == ["begun"]
    assert not results.look()
    shutil.copytree(whole, begun.parent / "another")
    (begun.parent / "not a run").mkdir()
    (begun.parent / "file").touch()
    assert results.look()
    assert [run.name for run in results.runs] == ["another", "begun"]
    (begun.parent / "comparison.json").write_text('{"baseline": "er", "errors": {"x": "no \\u001b luck", "y": 3}}')
    assert results.look()
    assert (results.baseline, results.errors) == ("er", {"x": r"no \x1b luck"})
    (begun.parent / "comparison.json").write_text("[]")
    assert results.look()
    assert (results.baseline, results.errors) == (None, {})
    shutil.rmtree(begun)
    assert results.look()
    assert [run.name for run in results.runs] == ["another"]
    shutil.rmtree(begun.parent)
    assert results.look()
    assert results.runs == []


def test_the_folder_of_one_run(whole):
    results = Results(whole)
    results.look()
    assert [(run.name, run.state) for run in results.runs] == [("whole", "complete")]


def test_the_runs_of_a_reproduction_lie_a_folder_deeper(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "runs" / "deep")
    shutil.copytree(whole, tmp_path / "beside")
    results = Results(tmp_path)
    results.look()
    assert [(run.name, run.state) for run in results.runs] == [("beside", "complete"), ("deep", "complete")]


@pytest.mark.parametrize(("number", "said"), [(1, "1 epoch"), (2, "2 epochs")])
def test_one_epoch_is_not_many(begun, number, said):
    (begun / "checkpoint").mkdir()
    (begun / "checkpoint" / f"{number}.json").touch()
    assert list_runs(begun.parent) == [("begun", f"incomplete, saved after {said}")]


@pytest.mark.parametrize("what", ["absent", "a file"])
def test_what_is_no_folder_is_refused(tmp_path, what):
    (tmp_path / "a file").touch()
    with pytest.raises(OutputError, match=r"does not exist|is not a folder"):
        Results(tmp_path / what)


def test_a_second_look_at_many_runs_reads_no_file(whole, tmp_path, monkeypatch):
    for i in range(100):
        shutil.copytree(whole, tmp_path / "many" / str(i))
    results = Results(tmp_path / "many")
    results.look()
    monkeypatch.setattr("tfcsr.experiments.reading.read_json", None)
    monkeypatch.setattr("tfcsr.experiments.told.Tail.look", None)
    assert not results.look()
    assert len(results.runs) == 100


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (["t-shirt", "\u202e"], ["t-shirt", "\u202e"]),
        ([], []),
        (None, []),
        ("ab", []),
        (["a", 3], []),
        ({"0": "a"}, []),
    ],
)
def test_names_of_classes_are_taken_where_they_are_names(begun, said, read):
    started = {"event": "run_started", "time": 0, "tasks": [[0], [1]], "class_names": said}
    (begun / "events.jsonl").write_text(json.dumps(started) + "\n")
    run = looked(begun)
    assert (run.class_names, run.classes, run.told.unread) == (read, [[0], [1]], 0)


def test_names_of_classes_are_those_of_the_result(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "named"))
    values = json.loads((whole / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(values | {"class_names": list("abcdef")}))
    assert looked(folder).class_names == list("abcdef")
    values.pop("class_names", None)  # one from before
    (folder / "result.json").write_text(json.dumps(values))
    assert looked(folder).class_names == []
    (folder / "result.json").write_text(json.dumps(values | {"class_names": "abc"}))
    assert "class_names is 'abc'" in looked(folder).words
