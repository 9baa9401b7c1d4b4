"""What version 0.1.0 left behind: read, reused where it still holds, and gone on with."""

import json
import shutil
from pathlib import Path

import pytest

import tfcsr
from tests.experiments.conftest import essence
from tfcsr.cli import main
from tfcsr.errors import OutputError
from tfcsr.experiments.folder import RunFolder, incomplete_runs, list_runs, read_results
from tfcsr.experiments.reading import Results
from tfcsr.experiments.record import Records
from tfcsr.paper.reproduction import open_study
from tfcsr.reporting.figures import plot
from tfcsr.reporting.report import write_report
from tfcsr.reporting.series import grouped
from tfcsr.spec import RunSpec

FOLDERS = Path(__file__).parents[1] / "folders" / "0.1.0"
REPRODUCTION = Path(__file__).parents[2] / "docs" / "reproduction"
METHODS = ["er", "tfcsr", "tfcsr-spaced", "si", "mgp", "ewc"]
SETTINGS = {"epochs": 2, "max_per_class": 20, "device": "cpu", "workers": 1}
LABELS = {*METHODS, "mgp, max_epochs 2", "si, si_lowest none", "ewc, fisher batch"} - {"mgp", "si", "ewc"}
# Of these the defaults were others.
CHANGED = ("si", "ewc")


@pytest.fixture
def compared(tmp_path):
    return Path(shutil.copytree(FOLDERS / "compared", tmp_path / "compared"))


@pytest.fixture
def stopped(tmp_path):
    return Path(shutil.copytree(FOLDERS / "stopped", tmp_path / "stopped"))


@pytest.fixture(scope="module")
def as_recorded():
    """Whether this machine gives the bits of that one, as one run tells: the name of the processor did not."""
    there = next(r for r in read_results(FOLDERS / "compared") if (r.spec["method"], r.spec["seed"]) == ("er", 0))
    return tfcsr.run(RunSpec.read(there.spec).replace(out=None)).weights_sha256 == there.weights_sha256


def series(folder):
    results = Results(folder)
    results.look()
    assert [run.problem for run in results.runs if run.state == "damaged"] == []
    (group,) = grouped(results.runs, results.baseline)
    return {one.label: one for one in group.series}


def test_a_comparison_is_read(compared):
    results = Results(compared)
    assert results.look()
    assert (results.baseline, len(results.runs), results.errors) == ("er", 12, {})
    assert {run.state for run in results.runs} == {"complete"}
    assert len(read_results(compared)) == 12
    assert {result.origin == {} for result in read_results(compared)} == {True}
    assert len(list_runs(compared)) == 12
    assert all(progress.endswith(" %") for _, progress in list_runs(compared))
    assert incomplete_runs(compared) == []


def test_its_series_are_named_by_their_methods(compared):
    found = series(compared)
    assert set(found) == LABELS
    assert all(len(one.runs) == 2 and one.repeated == 0 for one in found.values())
    assert found["tfcsr"].against is found["er"]
    assert found["tfcsr"].same_weights() == 2
    assert found["mgp, max_epochs 2"].command == (
        "tfcsr run --benchmark split-digits --method mgp --max-per-class 20 --epochs 2 --device cpu --precision fp32"
        " --threads 1 --max-epochs 2"
    )
    assert "--si-lowest none" in found["si, si_lowest none"].command
    assert "--ewc-lambda" not in found["er"].command


def test_it_is_reported_and_drawn(compared):
    page = write_report(compared).read_text()
    assert all(f'"{name}"' in page for name in METHODS)
    assert plot(compared, "overview").stat().st_size > 10_000
    assert plot(compared, "timeline", format="svg").exists()


def test_it_is_listed(compared, capsys):
    main(["list", "runs", str(compared)])
    assert capsys.readouterr().out.count(" %\n") == 12


def comparing(out, **fields):
    trained = set()

    def watcher(spec, news):
        if isinstance(news, dict):
            trained.add((spec.method, spec.seed))

    fields = SETTINGS | {"methods": METHODS, "seeds": 2} | fields
    own = {"max_epochs": 2} if "mgp" in fields["methods"] else {}
    return trained, tfcsr.compare(out=out, watcher=watcher, **fields, **own)


def test_the_same_comparison_trains_only_what_would_come_out_otherwise_now(compared):
    """The importance of SI is bounded now, and EWC asks example by example."""
    before = {path.name for path in compared.iterdir()}
    trained, comparison = comparing(compared)
    assert trained == {(method, seed) for method in CHANGED for seed in (0, 1)}
    assert {path.name for path in compared.iterdir()} > before
    assert all((compared / name).exists() for name in before)
    kept = {r.weights_sha256 for r in read_results(FOLDERS / "compared") if r.spec["method"] not in CHANGED}
    assert kept == {r.weights_sha256 for r in comparison.results if r.spec["method"] not in CHANGED}
    assert comparison.errors == {}
    assert set(series(compared)) == {*LABELS, "si, si_lowest zero", "ewc, fisher examples"}
    assert comparing(compared)[0] == set()


def test_what_it_says_of_its_runs_is_there(compared):
    comparing(compared, methods=["er", "tfcsr"])
    kept = json.loads((compared / "comparison.json").read_text())
    assert len(kept["runs"]) == 4
    assert all((compared / run["run"] / "result.json").exists() for run in kept["runs"])


def test_a_run_that_was_given_another_name_is_found_by_what_it_is(compared):
    next(compared.glob("er-seed0-*")).rename(compared / "the-best-one")
    assert comparing(compared, methods=["er"])[0] == set()
    kept = json.loads((compared / "comparison.json").read_text())
    assert "the-best-one" in {run["run"] for run in kept["runs"]}


def test_si_as_it_was_is_found_again(compared):
    trained, comparison = comparing(compared, methods=["si"], si_lowest="none")
    assert trained == set()
    assert {r.weights_sha256 for r in comparison.results} == {
        r.weights_sha256 for r in read_results(FOLDERS / "compared") if r.spec["method"] == "si"
    }


def test_other_settings_are_trained_beside_it(compared):
    trained, _ = comparing(compared, methods=["er"], epochs=1, seeds=1)
    assert trained == {("er", 0)}
    assert {"er, epochs 1", "er, epochs 2"} <= set(series(compared))


def test_one_of_its_folders_is_complete(compared):
    folder = next(compared.glob("mgp-seed0-*"))
    spec = RunFolder(folder).spec()
    result = tfcsr.run(spec, [lambda event: pytest.fail("it was trained")])
    assert result.weights_sha256 == json.loads((folder / "result.json").read_text())["weights_sha256"]


def test_of_code_and_data_it_said_nothing(compared):
    """So nothing can have changed: it is taken for what it is."""
    assert not any("origin" in json.loads(file.read_text()) for file in compared.glob("*/spec.json"))


def test_its_weights_still_come_out(tmp_path, as_recorded):
    if not as_recorded:  # whether these are the weights of er is for tests/golden to say
        pytest.skip("another processor, or another torch")
    there = {(r.spec["method"], r.spec["seed"]): r.weights_sha256 for r in read_results(FOLDERS / "compared")}
    _, comparison = comparing(tmp_path / "new", seeds=1, si_lowest="none", fisher="batch")
    assert {(r.spec["method"], 0): r.weights_sha256 for r in comparison.results} == {
        key: value for key, value in there.items() if key[1] == 0
    }


def test_a_stopped_run_goes_on_from_its_checkpoint(stopped, as_recorded):
    assert list_runs(stopped.parent) == [("stopped", "incomplete, saved after 6 epochs")]
    events = []
    result = tfcsr.resume(stopped, [events.append])
    epochs = [event for event in events if event["event"] == "epoch_finished"]
    assert (epochs[0]["task"], epochs[0]["epoch"], len(epochs)) == (2, 3, 5 * 4 - 6)
    assert len(result.accuracy_after_task) == 5
    assert result.epochs_per_task == [4] * 5
    assert not (stopped / "checkpoint").exists()
    told = [json.loads(line) for line in (stopped / "events.jsonl").read_text().splitlines()]
    assert sum(event["event"] == "epoch_finished" for event in told) == 20
    if as_recorded:
        whole = essence(tfcsr.run(RunFolder(stopped).spec().replace(out=None)))
        # What nobody counted then cannot be known now.
        assert (result.replayed, result.recall_asked[0]) == (None, [0] * 10)
        later = ("replayed", "recall_asked", "recall_right")
        known = {name: value for name, value in essence(result).items() if name not in later}
        assert known == {name: value for name, value in whole.items() if name not in later}


def test_the_command_line_resumes_it(stopped, capsys):
    main(["resume", str(stopped)])
    assert f"kept in {stopped}" in capsys.readouterr().out
    assert (stopped / "result.json").exists()


def changed(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_field_of_a_later_version_in_a_result_is_left_out(compared):
    file = next(compared.glob("er-seed0-*")) / "result.json"
    changed(file, calibration_error=0.3)
    assert len(read_results(compared)) == 12
    assert set(series(compared)) == LABELS
    spec = RunFolder(file.parent).spec()
    assert tfcsr.run(spec, [lambda event: pytest.fail("it was trained")]).spec["method"] == "er"


def test_the_origin_that_a_later_version_wrote_is_read_but_not_taken_for_ours(compared):
    folder = next(compared.glob("er-seed0-*"))
    changed(folder / "spec.json", origin={"training": 99, "method": 1, "data": "?", "code": {}, "weather": "fine"})
    assert RunFolder(folder).spec().method == "er"
    assert {run.state for run in looked(compared)} == {"complete"}
    with pytest.raises(OutputError, match="would not come out the same now"):
        tfcsr.resume(folder)
    trained, _ = comparing(compared, methods=["er"])
    assert trained == {("er", 0)}


@pytest.mark.parametrize("origin", [None, [], "text", 3, {"training": "?"}, {"code": 3, "training": 1, "method": 1}])
def test_an_origin_that_is_nonsense_stops_nobody_who_looks(compared, origin):
    changed(next(compared.glob("er-seed0-*")) / "spec.json", origin=origin)
    assert {run.state for run in looked(compared)} == {"complete"}
    assert write_report(compared).exists()


def looked(folder):
    results = Results(folder)
    results.look()
    return results.runs


def test_the_records_of_the_reproduction_are_read():
    records = Records.read(REPRODUCTION / "results.json")
    assert len(records.runs) > 150
    assert {record.run_spec.si_lowest for record in records.runs if record.run_spec.method == "si"} == {"none"}
    assert not any("ewc_lambda" in record.spec for record in records.runs if record.run_spec.method == "er")


def test_no_run_of_the_reproduction_is_missing():
    assert open_study(["all"], seeds=range(5), out=REPRODUCTION).missing() == []
