"""A run that was stopped goes on to the very same end."""

import subprocess
import sys

import pytest

import tfcsr
from tests.conftest import Anchored, make_spec, spoil
from tests.experiments.conftest import essence, history
from tfcsr.errors import DivergedError, OutputError
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.methods import METHODS
from tfcsr.models import MODELS

every_method = pytest.mark.parametrize("method", METHODS.names())
SETTINGS = {"checkpoint_every": 1, "augment": "crop-flip", "max_epochs": 4, "mastery_threshold": 100, "lr": 1e-4}


class Kill(Exception):
    """Stands in for a kill: nothing of ours catches it."""


def stopped(spec, at):
    """The run up to its `at`th event that is kept."""
    events = []

    def listener(event):
        if event["event"] != "step":
            events.append(event)
        if len(events) == at:
            raise Kill

    with pytest.raises(Kill):
        tfcsr.run(spec, [listener])


@every_method
@pytest.mark.parametrize("at", [1, 9])
def test_to_the_same_bits_metrics_and_events(tmp_path, method, at):
    whole = tfcsr.run(make_spec(**SETTINGS, method=method, out=str(tmp_path / "whole")))
    spec = make_spec(**SETTINGS, method=method, out=str(tmp_path / "run"))
    stopped(spec, at)
    assert not (tmp_path / "run" / "result.json").exists()
    assert essence(tfcsr.resume(tmp_path / "run")) == essence(whole)
    assert history(tmp_path / "run") == history(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "events.jsonl",
        "model.safetensors",
        "result.json",
        "spec.json",
    ]


def test_kills_for_real():
    """A dozen, at random points inside and outside of writes; the nightly script does many more."""
    arguments = ["-m", "tests.nightly.kill", "--kills", "16", "--seed", "5"]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) >= 16


def epochs_run(spec):
    events = []
    tfcsr.run(spec, [events.append])
    return sum(event["event"] == "epoch_finished" for event in events)


def test_the_same_spec_goes_on_where_it_stopped(tmp_path):
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 11)  # in the third epoch of task 2, of 12 epochs in all
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoint").glob("*.json")) == ["5.json", "6.json"]
    assert epochs_run(spec) == 6


def test_how_often_it_is_saved_is_no_part_of_what_it_is(tmp_path):
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=5)
    stopped(spec, 11)
    assert [path.name for path in (tmp_path / "run" / "checkpoint").glob("*.json")] == ["5.json"]
    assert epochs_run(spec.replace(checkpoint_every=2)) == 7


def test_saved_by_the_clock(tmp_path, monkeypatch):
    now, saved = [0.0], []

    def listener(event):
        if event["event"] == "epoch_finished":
            now[0] += 2

    monkeypatch.setattr("tfcsr.experiments.saving.time.monotonic", lambda: now[0])
    save = "tfcsr.experiments.run.Checkpoints.save"
    monkeypatch.setattr(save, lambda self, number, state, events: saved.append(number))
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_seconds=7, checkpoint_every=1)
    tfcsr.run(spec, [listener])
    assert saved == [4, 8, 12]


def test_saved_as_often_as_two_percent_allow(tmp_path, slow_saves):
    """With epochs of 10 s and checkpoints of 0.5 s, the first is at once and then one after 25 s or more."""
    saved, listener = slow_saves
    tfcsr.run(make_spec(method="er", out=str(tmp_path / "run")), [listener])
    assert [number for _, number in saved] == [1, 4, 7, 10]


def test_a_clock_set_back_is_nothing_to_a_run(tmp_path, monkeypatch):
    backwards = iter(range(10**9, 0, -1000))
    monkeypatch.setattr("tfcsr.training.events.time.time", lambda: float(next(backwards)))
    whole = tfcsr.run(make_spec(method="er", out=str(tmp_path / "whole"), checkpoint_seconds=0.01))
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_seconds=0.01)
    stopped(spec, 9)
    assert essence(tfcsr.run(spec)) == essence(whole)
    assert history(tmp_path / "run") == history(tmp_path / "whole")
    assert whole.seconds > 0


def test_a_folder_that_was_moved(tmp_path):
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 9)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert tfcsr.resume(tmp_path / "elsewhere").spec["out"] == str(tmp_path / "elsewhere")


def test_damage_to_the_newest_costs_an_epoch_and_to_both_is_said(tmp_path):
    whole = tfcsr.run(make_spec(method="er"))
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 11)
    saved = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    spoil(tmp_path / "run" / "checkpoint" / "6.safetensors")
    told = []
    assert essence(tfcsr.run(spec, [told.append])) == essence(whole)
    assert told[0]["event"] == "checkpoint_damaged"
    assert "6.json" in told[0]["problem"]
    assert told[1] == told[1] | {"event": "run_resumed", "task": 2, "epoch": 1}
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "run" / "checkpoint").mkdir()
    for path, data in saved.items():
        path.write_bytes(data)
    for number in (5, 6):
        spoil(tmp_path / "run" / "checkpoint" / f"{number}.safetensors")
    with pytest.raises(OutputError, match=r"no sound checkpoint.*start this run over"):
        tfcsr.run(spec)


def test_events_that_were_cut_are_said(tmp_path):
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 11)
    (tmp_path / "run" / "events.jsonl").write_text("")
    with pytest.raises(OutputError, match=r"events\.jsonl has 0 bytes, its checkpoint knows of \d+"):
        tfcsr.run(spec)


def test_a_checkpoint_that_does_not_fit_is_said(tmp_path, monkeypatch):
    spec = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 11)
    monkeypatch.setitem(MODELS._added, "tiny-bn", MODELS.get("tiny-linear"))
    with pytest.raises(OutputError, match=r"6\.json does not fit its run .*start this run over"):
        tfcsr.run(spec)


def test_what_a_users_method_sets_on_itself_is_kept(tmp_path):
    METHODS.add("anchored")(Anchored)
    whole = tfcsr.run(make_spec(method="anchored"))
    spec = make_spec(method="anchored", out=str(tmp_path / "run"), checkpoint_every=1)
    stopped(spec, 11)
    assert essence(tfcsr.run(spec)) == essence(whole)
    del METHODS._added["anchored"]


def test_a_wish_to_stop_is_met_after_the_step(tmp_path):
    whole = tfcsr.run(make_spec(method="er"))
    spec, stop, steps = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=1), Stop(), []

    def listener(event):
        if event["event"] == "step":
            steps.append(event)
        if len(steps) == 23:
            stop.request(2)

    with pytest.raises(Interrupted, match=r"^stopped after 2 epochs; `tfcsr resume .*run` goes on$") as caught:
        tfcsr.run(spec, [listener], stop)
    assert len(steps) == 23  # ten an epoch
    assert caught.value.number == 2
    assert essence(tfcsr.run(spec)) == essence(whole)


def test_a_wish_to_stop_waits_for_an_epoch_that_would_be_lost(tmp_path):
    spec, stop, steps = make_spec(method="er", out=str(tmp_path / "run"), checkpoint_every=100), Stop(), []

    def listener(event):
        if event["event"] == "step":
            steps.append(event)
        if len(steps) == 23:
            stop.request(2)

    with pytest.raises(Interrupted, match="stopped after 3 epochs"):
        tfcsr.run(spec, [listener], stop)
    assert len(steps) == 30
    assert epochs_run(spec) == 9


def test_a_run_without_a_folder_stops_too():
    stop = Stop()
    stop.request()
    with pytest.raises(Interrupted, match="nothing was kept"):
        tfcsr.run(make_spec(method="er"), (), stop)


def test_a_diverged_run_names_its_last_good_checkpoint(tmp_path):
    message = r"step 30 .*; the last good checkpoint, after 5 epochs, is .*checkpoint/5\.json$"
    with pytest.raises(DivergedError, match=message):
        tfcsr.run(make_spec(method="finetune", model="diverging", checkpoint_every=1, out=str(tmp_path / "run")))


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(OutputError, match="holds no run"):
        tfcsr.resume(tmp_path)


def test_a_kill_before_the_spec_was_written(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / ".spec.json.99.part").write_text("{")
    tfcsr.run(make_spec(method="er", epochs=1, out=str(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "events.jsonl",
        "model.safetensors",
        "result.json",
        "spec.json",
    ]
