"""The network that a run keeps: whole, plain, of no say in what the run is; it predicts, and it learns on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from PIL import Image

import tfcsr
from tests.conftest import make_spec, striped_dataset, trained
from tests.test_cli import refused
from tfcsr.cli import main
from tfcsr.data.views import Views
from tfcsr.errors import OutputError, TfcsrError
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.experiments.study import run_missing
from tfcsr.methods import METHODS
from tfcsr.paper.reproduction import open_study
from tfcsr.spec import LearnerSpec
from tfcsr.training.model_file import read_model

MODEL = "model.safetensors"
OLDER = Path(__file__).parents[1] / "folders" / "0.1.0"
SHIPPED = [name for name in METHODS.names() if METHODS.ships(name)]
SMALL = {"epochs": 2, "max_epochs": 2}
every_method = pytest.mark.parametrize("method", SHIPPED)


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """A network that is loaded takes all cores: here several tests may run side by side."""
    monkeypatch.setattr("tfcsr.experiments.machine.cores", lambda: 1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder and the result of a run with a method; once for all tests, none of which writes there."""
    top, done = tmp_path_factory.mktemp("runs"), {}

    def run(method):
        if method not in done:
            spec = make_spec(method=method, **SMALL, out=str(top / method))
            done[method] = top / method, tfcsr.run(spec)
        return done[method]

    return run


@pytest.fixture
def folder(runs, tmp_path):
    """A run's folder of one's own."""
    return shutil.copytree(runs("er")[0], tmp_path / "run")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is in the file


@every_method
def test_the_weights_are_there_under_their_own_names(runs, method):
    folder, result = runs(method)
    training = trained(method=method, **SMALL)
    assert training.weights_sha256() == result.weights_sha256
    kept = safetensors.torch.load_file(folder / MODEL)
    plain = {name: weight for name, weight in kept.items() if not name.startswith("tfcsr/")}
    expected = training.model.state_dict()
    assert plain.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(plain[name], weight), name
    network = torch.nn.Sequential(*training.model)  # anyone's own network of the same form
    network.load_state_dict(plain)


def test_labels_normalisation_and_spec_are_inside(runs):
    folder, result = runs("er")
    dataset = striped_dataset()
    kept, views = read_model(folder / MODEL), Views.of(dataset, "cpu")
    assert kept.labels == dataset.class_names
    assert torch.equal(kept.mean, views.mean)
    assert torch.equal(kept.std, views.std)
    assert kept.shape == (1, 4, 4)
    assert kept.dtype == torch.uint8
    assert {name: kept.spec[name] for name in ("method", "model", "seed")} == {
        name: result.spec[name] for name in ("method", "model", "seed")
    }
    with safetensors.safe_open(folder / MODEL, "pt") as file:  # for whoever has not this package
        (about,) = map(json.loads, file.metadata().values())
    assert about["labels"] == list(dataset.class_names)


def test_class_names_are_in_the_result_and_in_the_first_event(runs):
    folder, result = runs("er")
    names = list(striped_dataset().class_names)
    assert result.class_names == names
    assert json.loads((folder / "result.json").read_text())["class_names"] == names
    first = json.loads((folder / "events.jsonl").read_text().splitlines()[0])
    assert (first["event"], first["class_names"]) == ("run_started", names)


def test_a_run_without_a_folder_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tfcsr.run(make_spec(method="er", **SMALL))
    assert list(tmp_path.iterdir()) == []


# What it can do


@every_method
def test_it_predicts_as_the_run_did_in_the_end(runs, method):
    folder, result = runs(method)
    dataset = striped_dataset()
    learner = tfcsr.Learner.load(folder, device="cpu")
    assert learner.classes == list(dataset.class_names)
    names = np.array(dataset.class_names)
    right = learner.predict(dataset.test_x) == names[dataset.test_y]
    assert [100 * right[dataset.test_y == k].mean() for k in range(6)] == result.class_accuracy[-1]
    answers = trained(method=method, **SMALL).method.predict(torch.from_numpy(dataset.test_x))
    assert np.allclose(learner.predict_proba(dataset.test_x), answers.float().softmax(dim=1).numpy(), atol=1e-6)


def one_epoch(method):
    """mgp goes on until a task is mastered."""
    return {} if method == "mgp" else {"epochs": 1}


@every_method
def test_it_learns_on_classes_that_are_new(runs, tmp_path, method):
    folder, _ = runs(method)
    before = contents(folder)
    learner = tfcsr.Learner.load(folder, device="cpu")
    weights = {name: weight.clone() for name, weight in learner.model.state_dict().items()}
    dataset = striped_dataset(classes=8)
    rows = np.flatnonzero(dataset.train_y >= 5)  # one class is known
    names = np.array([f"class {k}" for k in range(8)])
    done = learner.learn(dataset.train_x[rows], names[dataset.train_y[rows]], **one_epoch(method))
    assert (done.new_classes, done.known_classes) == (("class 6", "class 7"), ("class 5",))
    assert learner.classes == list(names)
    assert learner.predict_proba(dataset.test_x).shape == (80, 8)
    assert any(not torch.equal(w, weights[n]) for n, w in learner.model.state_dict().items() if n in weights)
    learner.save(tmp_path / "kept")
    again = tfcsr.Learner.load(tmp_path / "kept")
    assert np.array_equal(again.predict_proba(dataset.test_x), learner.predict_proba(dataset.test_x))
    assert contents(folder) == before


@every_method
def test_it_learns_on_classes_that_it_knows(runs, method):
    folder, _ = runs(method)
    dataset = striped_dataset()
    learner = tfcsr.Learner.load(folder, device="cpu")
    names = np.array(dataset.class_names)
    before = (learner.predict(dataset.test_x) == names[dataset.test_y]).mean()
    done = learner.learn(dataset.train_x, names[dataset.train_y], **one_epoch(method) and {"epochs": 4})
    assert (learner.predict(dataset.test_x) == names[dataset.test_y]).mean() >= before
    assert (done.new_classes, done.known_classes) == ((), dataset.class_names)


def test_its_memory_comes_along(runs):
    folder, _ = runs("er")
    training = trained(method="er", **SMALL)
    found = tfcsr.Learner.load(folder, device="cpu").recall()
    assert found.asked == len(training.learner.buffer) == 24
    counts = torch.bincount(training.learner.buffer.y, minlength=6).tolist()
    assert list(found.kept.values()) == counts


def draw(folder, classes=("ant", "bee", "cow"), each=10):
    rng = np.random.default_rng(0)
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(each):
            pixels = rng.integers(0, 80, (8, 8)).astype(np.uint8)
            pixels[number] = 255
            Image.fromarray(pixels).save(folder / name / f"{i}.png")


@pytest.fixture
def of_images(tmp_path, monkeypatch, capsys):
    """A run through a folder of images, on the command line."""
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "images")
    flags = ["--epochs", "1", "--device", "cpu", "--threads", "1", "--tasks", "3"]
    main(["run", "--benchmark", "folder:images", "--method", "er", "--out", "run", *flags])
    capsys.readouterr()
    return tmp_path


def test_the_command_line_predicts_with_the_run_of_a_folder(of_images, capsys):
    main(["predict", "run", "images/ant/0.png", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["file"] == "images/ant/0.png"
    assert answer["label"] in ("ant", "bee", "cow")
    main(["recall", "run"])
    assert "bee" in capsys.readouterr().out


@pytest.mark.parametrize("classes", [("ant", "bee"), ("ant", "dog")])
def test_the_command_line_goes_on_with_it_or_says_at_once_that_it_cannot(of_images, capsys, classes):
    """What it must not do is train first and fail to save, or spoil the run."""
    draw(of_images / "more", classes)
    before, events = contents(of_images / "run"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfcsr.training.events.Events.emit", lambda self, name, **more: events.append(name))
        try:
            main(["learn", "run", "--data", "more", "--epochs", "1"])
            code = 0
        except SystemExit as ended:
            code = ended.code
    printed = capsys.readouterr()
    if code == 0:
        assert "kept in" in printed.out
        assert set(classes) <= set(tfcsr.Learner.load("run").classes)
    else:
        assert (code, printed.err.count("\n")) == (2, 1)
        assert "kept no network" not in printed.err
        assert "epoch_finished" not in events
        assert contents(of_images / "run") == before


def test_a_new_network_does_not_begin_in_a_runs_folder(of_images, capsys):
    before = contents(of_images / "run")
    assert "run" in refused(capsys, "learn", "--data", "images", "--out", "run")
    assert contents(of_images / "run") == before


# What is not kept, and what cannot be used


def test_none_is_kept_where_none_is_wanted(tmp_path, capsys):
    out = tmp_path / "run"
    flags = ["--epochs", "1", "--device", "cpu", "--threads", "1"]
    main(["run", "--benchmark", "tiny", "--method", "er", "--no-keep-model", "--out", str(out), *flags])
    capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["events.jsonl", "result.json", "spec.json"]
    with pytest.raises(OutputError, match="holds a run, and that kept no network"):
        tfcsr.Learner.load(out)
    for arguments in (["predict", str(out), "x.png"], ["recall", str(out)], ["learn", str(out), "--data", "x"]):
        assert f"{out} holds a run, and that kept no network" in refused(capsys, *arguments)


def test_none_is_kept_of_a_run_that_is_resumed_where_none_was_wanted(tmp_path):
    stop = Stop()

    def ask(event):
        if event["event"] == "epoch_finished":
            stop.request()

    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        tfcsr.run(make_spec(method="er", **SMALL, keep_model=False, checkpoint_every=1, out=str(out)), [ask], stop)
    tfcsr.resume(out)
    assert (out / "result.json").exists()
    assert not (out / MODEL).exists()


def test_what_is_kept_is_no_part_of_what_a_run_is(folder):
    with_model, without = (make_spec(method="er", **SMALL, keep_model=keep, out=str(folder)) for keep in (True, False))
    assert with_model.key() == without.key()
    assert with_model.name() == without.name()
    assert "keep_model" not in with_model.identity()
    assert "--keep-model" not in with_model.flags() + without.flags()
    before = contents(folder)
    tfcsr.run(without, [lambda event: pytest.fail("it was trained again")])
    assert contents(folder) == before


def test_a_learner_has_no_such_field():
    assert "keep_model" not in LearnerSpec.fields()


def test_a_comparison_keeps_them(tmp_path):
    tfcsr.compare(
        methods=["er", "finetune"], seeds=1, workers=1, out=tmp_path, benchmark="tiny", device="cpu", epochs=1
    )
    folders = [file.parent for file in tmp_path.glob("*/result.json")]
    assert len(folders) == 2
    assert all(len(tfcsr.Learner.load(folder).classes) == 6 for folder in folders)


def test_a_reproduction_does_not(tmp_path, monkeypatch):
    asked = []

    def execute(specs, *more):
        asked.extend(specs)
        return [None for _ in specs]

    monkeypatch.setattr("tfcsr.experiments.compare.execute", execute)
    study = open_study(["fig1"], seeds=[0], out=tmp_path, data="split-digits")
    run_missing(study, tmp_path, device="cpu", workers=1)
    assert len(asked) > 1
    assert {spec.keep_model for spec in asked} == {False}


@pytest.mark.parametrize("place", ["compared/er-seed0-1fec1b3254", "stopped", "compared"])
def test_a_folder_of_an_older_version_has_none_and_says_so(place):
    with pytest.raises(OutputError, match=r"holds a run, and that kept no network|holds no learner") as caught:
        tfcsr.Learner.load(OLDER / place)
    assert str(OLDER / place) in str(caught.value)


@pytest.mark.parametrize("spoil", ["short", "empty", "text", "a directory", "another's"])
def test_a_file_that_is_not_one_is_named(folder, spoil):
    file = folder / MODEL
    whole = file.read_bytes()
    file.unlink()
    if spoil == "short":
        file.write_bytes(whole[:-10])
    elif spoil == "empty":
        file.touch()
    elif spoil == "text":
        file.write_text("no network")
    elif spoil == "a directory":
        file.mkdir()
    else:
        safetensors.torch.save_file({"weight": torch.zeros(3)}, file)
    with pytest.raises(OutputError, match=rf"{MODEL}") as caught:
        tfcsr.Learner.load(folder)
    assert "\n" not in str(caught.value)


def test_a_method_that_is_not_known_here_is_named(tmp_path):
    METHODS.add("mine")(type("Mine", (METHODS.get("er"),), {}))
    try:
        tfcsr.run(make_spec(method="mine", **SMALL, out=str(tmp_path / "run")))
        assert tfcsr.Learner.load(tmp_path / "run").spec.method == "mine"
    finally:
        METHODS.remove("mine")
    with pytest.raises(TfcsrError, match="unknown method 'mine'"):
        tfcsr.Learner.load(tmp_path / "run")
