"""Records: what one run that probes after every epoch says of all schedules, and the file many runs are kept in."""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.conftest import make_spec
from tfcsr.errors import OutputError
from tfcsr.experiments.record import Record, Records, question
from tfcsr.experiments.run import run
from tfcsr.paper.dense import dense, seen_by
from tfcsr.spec import RunSpec


def record(**fields: object) -> Record:
    return Record.of(run(make_spec(epochs=8, **fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "er"},
        {"method": "tfcsr", "mastery_threshold": 10.0},
        {"method": "tfcsr", "mastery_threshold": 70.0},
        {"method": "tfcsr", "mastery_threshold": 100.0, "gap_multiplier": 3.0},
        {"method": "tfcsr", "schedule": "fixed", "initial_gap": 3.0},
        {"method": "tfcsr", "probe_mode": "none"},
        {"method": "er", "new_task": "last", "protocol": "paper", "buffer_capacity": 24},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
def test_one_dense_run_holds_every_schedule_to_the_bit(fields):
    spec = make_spec(epochs=8, **fields)
    alone = Record.of(run(spec))
    held = Record.of(run(dense(spec)))
    assert held.memory_checks == 3 * 8
    read_off = seen_by(held, spec)
    for f in dataclasses.fields(Record):
        if f.name not in ("seconds", "spec", "environment"):
            assert getattr(read_off, f.name) == getattr(alone, f.name), f.name
    assert question(read_off.run_spec) == question(spec)


@pytest.mark.parametrize(
    "fields",
    [{"method": m} for m in ("finetune", "ewc", "si", "mgp", "tfcsr-spaced", "joint")]
    + [{"method": "tfcsr", "probe_mode": mode} for mode in ("train", "placebo")],
)
def test_what_a_schedule_does_decide_is_run_by_itself(fields):
    spec = make_spec(**fields)
    assert dense(spec) == spec


def test_thresholds_and_er_share_one_run():
    holders = {dense(make_spec(method="tfcsr", mastery_threshold=t)) for t in (10, 50, 99)}
    assert holders == {dense(make_spec(method="er", mastery_threshold=10))}
    assert dense(make_spec(method="er", seed=1)) not in holders
    assert dense(make_spec(method="er", buffer_capacity=12)) not in holders


def test_a_question_is_the_same_on_any_machine():
    spec = make_spec(method="er")
    assert question(spec) == question(spec.replace(device="cuda", precision="bf16", threads=4, out="x"))
    assert question(spec) != question(spec.replace(lr=0.1))


@pytest.fixture
def records() -> Records:
    runs = [record(method="tfcsr", seed=seed) for seed in (0, 1)] + [record(method="mgp", held_out=0.2)]
    session = {"command": "tfcsr reproduce", "date": "2026-01-01", "runs": 3, "seconds": 1.5}
    return Records(runs, [session | {"machine": runs[0].environment}])


def test_what_is_written_is_read(tmp_path, records):
    path = tmp_path / "new" / "results.json"
    records.write(path)
    again = Records.read(path)
    assert sorted(again.runs, key=lambda r: r.weights_sha256) == sorted(records.runs, key=lambda r: r.weights_sha256)
    assert again.sessions == records.sessions
    before = path.read_bytes()
    again.write(path)
    assert path.read_bytes() == before
    # One line a run, and one for what two of them share but for the seed.
    values = json.loads(before)
    assert (len(values["runs"]), len(values["specs"]), before.count(b"\n{")) == (3, 2, 5)
    assert sorted(entry["seed"] for entry in values["runs"]) == [0, 0, 1]


def test_a_file_in_which_each_run_has_its_own_spec_is_read(tmp_path, records):
    path = tmp_path / "results.json"
    records.write(path)
    new, values = Records.read(path), json.loads(path.read_text())
    for entry in values["runs"]:
        entry["spec"] = values["specs"][entry["spec"]] | {"seed": entry.pop("seed")}
    del values["specs"]
    path.write_text(json.dumps(values))
    assert Records.read(path) == new


def test_no_path_of_the_machine_is_kept(tmp_path):
    spec = make_spec(method="finetune", epochs=1, out=str(tmp_path / "secret"), data_dir=str(tmp_path / "hidden"))
    Records([Record.of(run(spec))]).write(tmp_path / "results.json")
    assert str(tmp_path) not in (tmp_path / "results.json").read_text()


def test_a_folder_of_runs_is_read_too(tmp_path):
    spec = make_spec(method="er", epochs=1)
    result = run(spec.replace(out=str(tmp_path / "one")))
    assert [r.weights_sha256 for r in Records.read(tmp_path).runs] == [result.weights_sha256]


def test_merging_keeps_what_is_known(records):
    other = Records([record(method="tfcsr", seed=1), record(method="si")], records.sessions)
    first = records.runs[1]
    records.merge(other)
    assert len(records.runs) == 4
    assert records.runs[1] is first
    assert len(records.sessions) == 1


def test_of_runs_that_answer_one_question_the_first_is_taken():
    """A folder may hold the same run from a CPU and from a GPU."""
    one, other = record(method="si"), record(method="si")
    records = Records()
    records.merge(Records([one, other]))
    assert [r is one for r in records.runs] == [True]


def test_a_spec_from_before_a_field_existed_gets_its_default(tmp_path, records):
    path = tmp_path / "results.json"
    records.write(path)
    values = json.loads(path.read_text())
    for spec in values["specs"]:
        del spec["new_task"]
    path.write_text(json.dumps(values))
    assert {r.run_spec.new_task for r in Records.read(path).runs} == {"current"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: [],
        lambda v: v | {"runs": [{}]},
        lambda v: v | {"machines": []},
        lambda v: v | {"machines": 3},
        lambda v: v | {"sessions": [{"machine": 0}]},
        lambda v: v | {"runs": [v["runs"][0] | {"environment": -1}]},
        lambda v: v | {"runs": [v["runs"][0] | {"environment": [0]}]},
        lambda v: v | {"runs": [v["runs"][0] | {"accuracy_after_task": []}]},
        lambda v: v | {"runs": [v["runs"][0] | {"accuracy_after_task": ["a"]}]},
        lambda v: v | {"runs": [v["runs"][0] | {"probes": [[1]]}]},
        lambda v: v | {"runs": [v["runs"][0] | {"spec": {"method": "nope"}}]},
        lambda v: v | {"runs": [v["runs"][0] | {"spec": 2}]},
        lambda v: v | {"runs": [v["runs"][0] | {"spec": -1}]},
        lambda v: v | {"runs": [v["runs"][0] | {"spec": True}]},
        lambda v: v | {"runs": [v["runs"][0] | {"spec": None}]},
        lambda v: v | {"runs": [v["runs"][0] | {"seed": "a"}]},
        lambda v: v | {"runs": [v["runs"][0] | {"seed": None}]},
        lambda v: v | {"specs": None},
        lambda v: v | {"runs": [{name: value for name, value in v["runs"][0].items() if name != "seed"}]},
        lambda v: v | {"specs": [[], 3]},
        lambda v: v | {"specs": {"0": {}}},
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, records, damage):
    path = tmp_path / "results.json"
    records.write(path)
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(OutputError) as caught:
        Records.read(path)
    assert str(Path(path)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_dense_run_is_a_spec_like_any_other():
    spec = dense(RunSpec(benchmark="split-cifar100", method="er", protocol="paper"))
    assert RunSpec.from_dict(spec.to_dict()) == spec
