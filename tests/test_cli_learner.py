"""`tfcsr learn`, `predict` and `recall`: a network taught week by week on a command line, with folders of images."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import tfcsr
from tests.test_cli import refused
from tfcsr.cli import main
from tfcsr.experiments.history import history
from tfcsr.training.checkpoint import Checkpoints

WEEK1, WEEK2 = ("cat", "dog", "eel"), ("fox", "cat")
SIZE = 8
# What a new network is given; of these, one that is kept takes only the epochs and the device.
NEW = ["--epochs", "2", "--batch-size", "8", "--lr", "0.01", "--device", "cpu", "--threads", "1"]
NEW += ["--checkpoint-every", "1"]


def draw(folder: Path, classes: tuple[str, ...], each: int = 12, size: int = SIZE, seed: int = 0) -> Path:
    """A directory per class; of each class one row is bright, by the letter it begins with."""
    rng = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            pixels = rng.integers(0, 80, (size, size)).astype(np.uint8)
            pixels[ord(name[0]) % size] = 255
            Image.fromarray(pixels).save(folder / name / f"{number:02}.png")
    return folder


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Several tests may run side by side."""
    monkeypatch.setattr("tfcsr.experiments.machine.cores", lambda: 1)


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> Path:
    """Two weeks of images, and what was learned of the first and of both. Nobody writes here."""
    top = tmp_path_factory.mktemp("taught")
    draw(top / "week1", WEEK1)
    draw(top / "week2", WEEK2, seed=1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    main(["learn", "--data", str(top / "week1"), "--out", str(top / "first"), *NEW])
    shutil.copytree(top / "first", top / "both")
    main(["learn", str(top / "both"), "--data", str(top / "week2"), "--epochs", "3"])
    torch.set_num_threads(before)
    return top


@pytest.fixture
def place(taught, tmp_path, monkeypatch) -> Path:
    """A folder of one's own with the weeks and the networks, to work in."""
    shutil.copytree(taught, tmp_path / "here", copy_function=shutil.copy2)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def said(capsys, *arguments: str) -> str:
    """What a command prints when all is well: then nothing stands on stderr."""
    capsys.readouterr()
    main(arguments)
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def ended(arguments: list[str]) -> int:
    """The code a command ends with."""
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def essence(folder: str | Path) -> tuple[object, ...]:
    """What a network in a folder has come to, but for what the clock says."""
    folder = Path(folder)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    learner = tfcsr.Learner.load(folder)
    assert {name: w.tolist() for name, w in learner.model.state_dict().items()} == {
        name: w.tolist() for name, w in weights.items() if not name.startswith("tfcsr/")
    }
    told = history(folder)
    clock = ("when", "seconds", "source", "made")
    kept = {n: [{k: v for k, v in e.items() if k not in clock} for e in told[n]] for n in ("instalments", "probes")}
    return {name: w.tolist() for name, w in weights.items()}, learner.classes, learner.recall(), kept


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# A network from week to week


def test_the_weeks_of_a_network(place, capsys):
    """The commands of the issue, one after another."""
    out = said(capsys, "learn", "--data", "week1/", "--out", "model/", "--epochs", "2", "--device", "cpu")
    assert out.startswith("learned 36 examples of 3 new classes in 2 epochs, ")
    assert "kept in model: tfcsr predict model FILE..., tfcsr recall model, tfcsr report model\n" in out
    out = said(capsys, "learn", "model/", "--data", "week2/")
    assert out.startswith("learned 24 examples of 1 new class, 1 known in 2 epochs, ")
    assert re.search(r"recall \d+\.\d % of 4 classes; ", out)
    files = [str(path) for path in sorted(Path("week2/fox").glob("*.png"))]
    assert len(said(capsys, "predict", "model/", *files).splitlines()) == 12
    assert said(capsys, "recall", "model/").count("12") >= 3
    assert said(capsys, "report", "model/").startswith("model/report.html (")
    assert not Path("model/learning").exists()
    assert not list(Path("model").glob(".*"))


def test_the_folder_of_a_new_network_is_called_model(place, capsys):
    assert "kept in model" in said(capsys, "learn", "--data", "week1", *NEW)
    assert Path("model/spec.json").exists()


def test_it_learns_what_it_is_taught(place, capsys):
    said(capsys, "learn", "both", "--data", "week2", "--epochs", "15", "--again")
    answers = [json.loads(line) for line in said(capsys, "predict", "both", "week1", "--json").splitlines()]
    assert len(answers) == 36
    assert sum(Path(answer["file"]).parent.name == answer["label"] for answer in answers) > 30


def test_the_same_commands_give_the_same_bits(place, capsys):
    said(capsys, "learn", "--data", "week1", "--out", "again", *NEW)
    assert essence("again") == essence("first")
    said(capsys, "learn", "again", "--data", "week2", "--epochs", "3")
    assert essence("again") == essence("both")
    assert essence("both") != essence("first")


def test_the_python_of_it_is_the_same_network(place):
    learner = tfcsr.Learner(epochs=2, batch_size=8, lr=0.01, device="cpu", threads=1, checkpoint_every=1)
    learner.save("other")
    learner.learn("week1")
    learner.save("other")
    assert essence("other") == essence("first")


def test_an_npz_is_learned_and_asked_about(place, capsys):
    images = sorted(Path("week1").glob("*/*.png"))
    x = np.stack([np.array(Image.open(path)) for path in images])[:, None]
    np.savez("week.npz", x=x, y=np.array([path.parent.name for path in images]))
    np.savez("new.npz", x=x[:2])
    assert "learned 36 examples of 3 new classes" in said(capsys, "learn", "--data", "week.npz", "--out", "m", *NEW)
    lines = said(capsys, "predict", "m", "new.npz").splitlines()
    assert [line.split()[0] for line in lines] == ["new.npz[0]", "new.npz[1]"]


# Predictions


def test_predictions_are_a_line_each(place, capsys):
    files = [f"week1/{name}/0{i}.png" for name in WEEK1 for i in range(3)]
    lines = said(capsys, "predict", "both", *files).splitlines()
    expected = tfcsr.Learner.load("both")
    proba = expected.predict_proba(files)
    for file, line, row in zip(files, lines, proba, strict=True):
        assert line.split("  ") == [file, expected.classes[row.argmax()], f"{row.max():.4f}"]


def test_predictions_among_some_labels(place, capsys):
    lines = said(capsys, "predict", "both", "week1", "--among", "fox,cat").splitlines()
    assert {line.split()[1] for line in lines} <= {"fox", "cat"}
    with pytest.raises(SystemExit) as stopped:
        main(["predict", "both", "week1", "--among", "fox,unicorn"])
    assert stopped.value.code == 2
    assert "among has 'unicorn', which was never learned: the classes are " in capsys.readouterr().err


def test_a_folder_is_asked_about_as_its_images(place, capsys):
    (Path("week1") / "cat" / "notes.txt").write_text("no image")
    lines = said(capsys, "predict", "both", "week1/cat", "week2/fox/00.png").splitlines()
    assert [line.split()[0] for line in lines] == [*(f"week1/cat/{i:02}.png" for i in range(12)), "week2/fox/00.png"]


def test_predictions_as_json_and_csv_say_the_same(place, capsys):
    objects = [json.loads(line) for line in said(capsys, "predict", "both", "week1", "--json").splitlines()]
    table = said(capsys, "predict", "both", "week1", "--csv")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert table.splitlines()[0] == "file,label,probability"
    assert [list(entry) for entry in objects] == [["file", "label", "probability"]] * 36
    assert [row | {"probability": float(row["probability"])} for row in rows] == objects
    assert all(0 < entry["probability"] <= 1 for entry in objects)


ODD = ("a, b", 'say "hi"', "Füchse ☃", "two\nlines", "re\rturn", "=1+1", "[red]x", "tab\there", "\x1b[31mred", " ")


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Path:
    """A network of classes whose names a terminal, a table or a CSV file might choke on; one directory per name."""
    top = tmp_path_factory.mktemp("odd")
    draw(top / "data", ODD, each=4)
    main(["learn", "--data", str(top / "data"), "--out", str(top / "model"), *NEW, "--epochs", "15"])
    return top


def test_odd_names_come_back_as_json(odd, capsys):
    lines = said(capsys, "predict", str(odd / "model"), str(odd / "data"), "--json").splitlines()
    answers = [json.loads(line) for line in lines]
    assert len({answer["label"] for answer in answers}) > 5
    assert {Path(answer["file"]).parent.name for answer in answers} == set(ODD) >= {a["label"] for a in answers}


def test_odd_names_come_back_as_csv(odd, capsys):
    model, data = str(odd / "model"), str(odd / "data")
    expected = [json.loads(line) for line in said(capsys, "predict", model, data, "--json").splitlines()]
    table = said(capsys, "predict", model, data, "--csv")
    rows = list(csv.reader(io.StringIO(table, newline="")))
    assert rows[0] == ["file", "label", "probability"]
    assert [row[:2] for row in rows[1:]] == [[answer["file"], answer["label"]] for answer in expected]


def test_odd_names_do_nothing_to_a_terminal(odd, capsys):
    model = str(odd / "model")
    for arguments in (["predict", model, str(odd / "data")], ["recall", model]):
        printed = said(capsys, *arguments)
        assert all(line.isprintable() for line in printed.split("\n"))
        assert r"two\nlines" in printed
        assert "Füchse ☃" in printed
    assert len(said(capsys, "predict", model, str(odd / "data")).splitlines()) == 4 * len(ODD)
    (odd / "more" / "x\ny").mkdir(parents=True, exist_ok=True)
    shutil.copy(odd / "data" / "a, b" / "00.png", odd / "more" / "x\ny")
    again = shutil.copytree(odd / "model", odd / "again")
    assert all(
        line.isprintable() for line in said(capsys, "learn", str(again), "--data", str(odd / "more")).split("\n")
    )


def test_a_file_whose_name_is_no_text_is_answered_in_every_form(odd, tmp_path, capsys):
    source = odd / "data" / "a, b" / "00.png"
    shutil.copy(source, os.fsencode(tmp_path) + b"/\xff.png")
    for form in ([], ["--json"], ["--csv"]):
        printed = said(capsys, "predict", str(odd / "model"), str(tmp_path), *form)
        assert len(printed.splitlines()) == 1 + (form == ["--csv"])


# Recall, report and the commands for runs


def test_recall_is_a_table_and_json(place, capsys):
    found = tfcsr.Learner.load("both").recall()
    told = json.loads(said(capsys, "recall", "both", "--json"))
    assert told["overall"] == found.overall
    assert found.interval is told["interval"] is None  # of what was trained on there is none to give
    assert told["forgotten"] == list(found.forgotten)
    assert [entry["class"] for entry in told["classes"]] == ["cat", "dog", "eel", "fox"]
    table = said(capsys, "recall", "both")
    assert f"{found.asked} examples kept: {found.overall:.1f} % recalled" in table
    for entry in told["classes"]:
        cells = next(line.split() for line in table.splitlines() if line.split()[:1] == [entry["class"]])
        assert cells[1:4] == [str(entry["kept"]), f"{entry['recall']:.1f}", f"{entry['best']:.1f}"]


def test_what_is_forgotten_is_said(place, capsys):
    learner = tfcsr.Learner(buffer_capacity=4, epochs=8, batch_size=8, lr=0.02, device="cpu", threads=1)
    learner.learn("week1")
    learner.save("small")
    draw(Path("week3"), ("gnu", "hen", "ibis"), each=30)
    printed = said(capsys, "learn", "small", "--data", "week3")
    lost = tfcsr.Learner.load("small").recall().forgotten
    assert ("being forgotten: " if lost else "no sign of forgetting in what was trained on") in printed
    assert "--exam-share" in said(capsys, "recall", "small")
    assert all(str(label) in said(capsys, "recall", "small").rpartition("being forgotten")[2] for label in lost)


def test_an_exam_is_asked_instead(place, capsys):
    draw(Path("many"), WEEK1, each=40)
    printed = said(capsys, "learn", "--data", "many", "--out", "judged", *NEW, "--exam-share", "0.2")
    found = tfcsr.Learner.load("judged").recall()
    assert found.exam
    low, high = found.interval
    assert 0 <= low < found.overall <= high <= 100
    assert (found.asked, round(low), round(high)) == (24, 86, 100)  # all were right
    within = f"(95 % interval {low:.1f} to {high:.1f})"
    assert f"exam {found.overall:.1f} % of 3 classes {within}; no class lost more than chance explains" in printed
    table = said(capsys, "recall", "judged")
    assert f"an exam of {found.asked} examples: {found.overall:.1f} % recalled {within}" in table
    assert "--exam-share" not in table
    told = json.loads(said(capsys, "recall", "judged", "--json"))
    assert (told["exam"], told["interval"]) == (True, [low, high])
    for entry in told["classes"]:
        cells = next(line.split() for line in table.splitlines() if line.split()[:1] == [entry["class"]])
        assert cells[1:4] == [str(entry["kept"]), str(entry["asked"]), f"{entry['recall']:.1f}"]
        assert 0 < entry["asked"] < entry["kept"]
    said(capsys, "report", "judged")
    page = Path("judged/report.html").read_text()
    assert (
        f"of the {found.asked} examples of its exam are recalled now; no class lost more than chance explains." in page
    )
    assert "flatters" not in page


def test_a_method_without_a_memory_says_so(place, capsys):
    printed = said(capsys, "learn", "--data", "week1", "--out", "plain", *NEW, "--method", "ewc")
    assert "recall" not in printed.partition("kept in")[0]
    assert "keeps no examples" in refused(capsys, "recall", "plain")
    assert len(said(capsys, "predict", "plain", "week1/cat").splitlines()) == 12


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("names", [WEEK1, ("a class whose name is longer than most " * 2, "dog" * 30, "eel")])
def test_no_number_is_cut(tmp_path, capsys, monkeypatch, columns, names):
    monkeypatch.setenv("COLUMNS", columns)
    draw(tmp_path / "data", names)
    learned = said(capsys, "learn", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "m"), *NEW)
    assert "learned 36 examples of 3 new classes in 2 epochs" in learned
    found = json.loads(said(capsys, "recall", str(tmp_path / "m"), "--json"))
    table = said(capsys, "recall", str(tmp_path / "m"))
    assert max(map(len, table.splitlines())) <= int(columns)
    assert table.split()[:6] == ["36", "examples", "kept:", f"{found['overall']:.1f}", "%", "recalled"]
    heading = ("class", "kept", "recall %", "best %", "change")
    assert any(all(word in line for word in heading) for line in table.splitlines())
    # A long name may be shortened or go on in the next line; the numbers stand in one.
    numbers = [re.search(r" (\d+) +(\d+\.\d) +(\d+\.\d)\b", line) for line in table.splitlines()]
    assert [match.groups() for match in numbers if match] == [
        (str(entry["kept"]), f"{entry['recall']:.1f}", f"{entry['best']:.1f}") for entry in found["classes"]
    ]


def test_the_report_is_a_page_about_it(place, capsys):
    printed = said(capsys, "report", "both", "--out", "page.html")
    page = Path("page.html").read_text()
    assert printed.startswith("page.html (")
    for text in ("cat", "fox", "week2"):
        assert text in page
    said(capsys, "report", "both")
    assert Path("both/report.html").read_text().count("<html") == 1


def test_it_is_listed_beside_runs(place, capsys):
    said(capsys, "run", "--benchmark", "tiny", "--out", "run", "--device", "cpu", "--epochs", "1")
    lines = dict(line.split(maxsplit=1) for line in said(capsys, "list", "runs", ".").splitlines())
    assert lines["both"] == lines["first"] == "a learner"
    assert lines["run"].endswith("%")
    assert set(lines) == {"both", "first", "run"}


@pytest.mark.parametrize("command", ["watch", "resume", "plot"])
def test_what_is_for_runs_says_that_this_is_a_learner(place, capsys, monkeypatch, command):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)  # it would go on for ever
    before = contents(place)
    assert "learner" in refused(capsys, command, "both")
    assert contents(place) == before


def test_runs_are_resumed_and_shown_though_a_learner_lies_beside(place, capsys):
    said(capsys, "run", "--benchmark", "tiny", "--out", "run", "--device", "cpu", "--epochs", "1")
    assert "every run in . is complete" in said(capsys, "resume", ".")
    said(capsys, "report", ".")
    assert "is damaged" not in Path("report.html").read_text().rpartition("plotly")[2]


# Done already, or in somebody's way


def test_the_same_command_after_it_is_done_is_refused(place, capsys):
    before = contents(place / "both")
    line = refused(capsys, "learn", "--data", "week1", "--out", "both", *NEW)
    assert "both holds a network that has learned already: `tfcsr learn both --data week1` goes on with it" in line
    line = refused(capsys, "learn", "both", "--data", "week2", "--epochs", "3")
    assert "both has learned week2 already: give --again to learn it once more" in line
    assert contents(place / "both") == before


def test_again_means_again(place, capsys):
    assert "of 0 new classes, 2 known in 2 epochs" in said(capsys, "learn", "both", "--data", "week2", "--again")
    assert len(tfcsr.Learner.load("both").history) == 3


def test_other_data_of_the_same_name_is_learned(place, capsys):
    (place / "week2" / "fox" / "00.png").unlink()
    assert "learned 23 examples" in said(capsys, "learn", "both", "--data", "week2", "--epochs", "1")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--lr", "0.1"], "--lr"),
        (["--seed", "3"], "--seed"),
        (["--method", "er"], "--method"),
        (["--model", "resnet18"], "--model"),
        (["--buffer-capacity", "9"], "--buffer-capacity"),
        (["--checkpoint-every", "2"], "--checkpoint-every"),
        (["--out", "elsewhere"], "--out"),
        (["--head", "3"], "--head"),
        (["--size", "16"], "--size"),
    ],
)
def test_what_is_for_a_new_network_is_refused_for_one_that_is_kept(place, capsys, flags, name):
    before = contents(place)
    line = refused(capsys, "learn", "first", "--data", "week2", *flags)
    assert f"{name} is for a new network, first has its own: leave it out" in line
    assert contents(place) == before


def test_begun_with_other_settings(place, capsys, stopping):
    with stopping(signal.SIGINT):
        main(["learn", "--data", "week1", "--out", "new", *NEW])
    line = refused(capsys, "learn", "--data", "week1", "--out", "new", *NEW, "--seed", "5")
    assert "new holds a network that was begun with other settings: choose another --out" in line


def test_a_folder_with_something_else_in_it_is_left_alone(place, capsys):
    Path("thesis").mkdir()
    Path("thesis/chapter1.tex").write_text("all of it")
    assert "thesis is not empty and holds no learner" in refused(capsys, "learn", "--data", "week1", "--out", "thesis")
    assert [path.name for path in Path("thesis").iterdir()] == ["chapter1.tex"]
    assert "not a folder" in refused(capsys, "learn", "--data", "week1", "--out", "thesis/chapter1.tex")


# Stopped, killed, and gone on with


@pytest.fixture
def stopping(monkeypatch, capsys):
    """Within it a signal comes right after the first checkpoint of a learn, and the command has to end by it."""

    class Stopping:
        def __init__(self, number):
            self.number, self.line = number, ""

        def __enter__(self):
            save, sent = Checkpoints.save, []

            def saving(checkpoints, *arguments):
                save(checkpoints, *arguments)
                if checkpoints.folder.name == "learning" and not sent:
                    sent.append(1)
                    os.kill(os.getpid(), self.number)

            capsys.readouterr()
            self.patch = pytest.MonkeyPatch()
            self.patch.setattr(Checkpoints, "save", saving)
            return self

        def __exit__(self, kind, error, trace):
            self.patch.undo()
            assert kind is SystemExit
            assert error.code == 128 + self.number
            self.line = capsys.readouterr().err
            assert self.line.startswith("tfcsr: stopped after ")
            assert self.line.count("\n") == 1
            return True

    return Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_first_learn_and_the_same_command_goes_on(place, capsys, stopping, number):
    command = ["learn", "--data", "week1", "--out", "new", *NEW]
    with stopping(number) as stopped:
        main(command)
    assert "the same command" in stopped.line
    assert "goes on" in stopped.line
    assert list(Path("new/learning").glob("*.json"))
    assert "learned 36 examples" in said(capsys, *command)
    assert essence("new") == essence("first")
    assert not Path("new/learning").exists()


@pytest.mark.parametrize("data", ["week2", "week 2; rm -rf"])
@pytest.mark.parametrize("epochs", [[], ["--epochs", "3"]])
def test_ctrl_c_stops_a_further_learn_and_says_how_to_go_on(place, capsys, stopping, epochs, data):
    """The command it names is one that works: with the epochs that were asked for, and fit for a shell."""
    if data != "week2":
        Path("week2").rename(data)
    shutil.copytree("first", "whole")
    said(capsys, "learn", "whole", "--data", data, *epochs)
    with stopping(signal.SIGINT) as stopped:
        main(["learn", "first", "--data", data, *epochs])
    named = re.search(r"`(tfcsr learn .*)` goes on", stopped.line)
    assert named is not None, stopped.line
    assert len(tfcsr.Learner.load("first").history) == 1
    said(capsys, *shlex.split(named[1])[1:])
    assert essence("first") == essence("whole")


def test_a_stopped_learn_can_still_be_asked_and_shown(place, capsys, stopping):
    before = said(capsys, "predict", "first", "week1"), said(capsys, "recall", "first")
    with stopping(signal.SIGINT):
        main(["learn", "first", "--data", "week2", "--epochs", "3"])
    assert (said(capsys, "predict", "first", "week1"), said(capsys, "recall", "first")) == before
    said(capsys, "report", "first")
    assert "week2" in Path("first/report.html").read_text()


def test_other_data_does_not_go_on_with_a_stopped_learn(place, capsys, stopping):
    draw(Path("week3"), ("gnu",))
    with stopping(signal.SIGINT):
        main(["learn", "first", "--data", "week2", "--epochs", "3"])
    before = contents(place / "first")
    line = refused(capsys, "learn", "first", "--data", "week3", "--epochs", "3")
    assert "week2" in line
    assert "resume=" not in line  # which nobody can give on a command line
    assert contents(place / "first") == before


KILLED = """
import os, signal, sys
from tfcsr.training.checkpoint import Checkpoints
from tfcsr.cli import main
save = Checkpoints.save
def killed(self, *arguments):
    save(self, *arguments)
    if self.folder.name == "learning":
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoints.save = killed
main(sys.argv[1:])
"""


def killed(*arguments: str) -> None:
    """The command, killed once it has saved its first epoch."""
    env = os.environ | {"PYTHONPATH": str(Path(tfcsr.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], env=env, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_network_goes_on_to_the_same_bits(place, capsys):
    command = ["learn", "--data", "week1", "--out", "new", *NEW]
    killed(*command)
    assert list(Path("new/learning").glob("*.json"))
    assert "learned 36 examples of 3 new classes in 2 epochs" in said(capsys, *command)
    assert essence("new") == essence("first")
    command = ["learn", "new", "--data", "week2", "--epochs", "3"]
    killed(*command)
    assert "learned 24 examples of 1 new class, 1 known in 3 epochs" in said(capsys, *command)
    assert essence("new") == essence("both")
    assert sorted(path.name for path in Path("new").iterdir()) == sorted(path.name for path in Path("both").iterdir())


class PulledError(BaseException):
    """The plug, at some moment."""


@pytest.mark.parametrize(
    ("command", "begins", "ends"),
    [
        (["learn", "--data", "week1", "--out", "model", *NEW], None, "first"),
        (["learn", "model", "--data", "week2", "--epochs", "3"], "first", "both"),
    ],
    ids=["the first learn", "a further learn"],
)
def test_wherever_it_is_cut_off_the_same_command_ends_it(place, monkeypatch, command, begins, ends):
    """At every file it writes, just before the new one takes its place."""
    replace, left, wrong = Path.replace, [0], []

    def pulled(self, target):
        left[0] -= 1
        if left[0] == 0:
            raise PulledError(str(target))
        return replace(self, target)

    for moment in range(1, 40):
        shutil.rmtree("model", ignore_errors=True)
        if begins is not None:
            shutil.copytree(begins, "model")
        left[0] = moment
        where = ""
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", pulled)
            try:
                main(command)
            except PulledError as error:
                where = str(error)
        if not where:
            break
        try:
            code = ended(command)
            if essence("model") != essence(ends) or Path("model/learning").exists():
                wrong.append(f"cut off before {where}, then {code}: it is not what it should be")
        except (AssertionError, tfcsr.TfcsrError, OSError) as error:
            wrong.append(f"cut off before {where}, then {code}: {str(error).partition(chr(10))[0]}")
    assert 5 < moment < 39
    assert wrong == []


def test_it_is_saved_as_often_as_it_was_begun_with(place, monkeypatch):
    saved, save = [], Checkpoints.save

    def saving(checkpoints, number, *more):
        saved.append((checkpoints.folder.name, number))
        save(checkpoints, number, *more)

    monkeypatch.setattr(Checkpoints, "save", saving)
    main(["learn", "first", "--data", "week2", "--epochs", "3"])  # it was begun with --checkpoint-every 1
    assert [number for name, number in saved if name == "learning"] == [3, 4, 5]


# What cannot be


def wrong_data(name: str) -> list[str]:
    """Data that cannot be learned, made where we stand; and the flags to name it with."""
    if name == "missing":
        return ["--data", "nowhere"]
    if name == "file":
        Path("file.txt").write_text("hello")
        return ["--data", "file.txt"]
    if name == "flat":
        return ["--data", "week1/cat"]
    if name == "empty":
        Path("empty").mkdir()
        return ["--data", "empty"]
    if name == "class without images":
        (Path("week1") / "bat").mkdir()
        return ["--data", "week1"]
    if name == "sizes":
        Image.new("L", (16, 12)).save("week1/dog/large.png")
        return ["--data", "week1"]
    if name == "unreadable":
        Path("week1/dog/00.png").write_bytes(b"no image")
        Path("week1/eel/01.png").write_bytes(Path("week1/eel/01.png").read_bytes()[:40])
        return ["--data", "week1"]
    if name == "npz":
        Path("bad.npz").write_bytes(b"PK no archive")
        return ["--data", "bad.npz"]
    if name == "vectors":
        np.savez("vectors.npz", x=np.zeros((9, 5), np.float32), y=np.arange(9) % 3)
        return ["--data", "vectors.npz"]
    if name == "head":
        return ["--data", "week1", "--head", "nothing"]
    return ["--data", "week1", *shlex.split(name)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", ["nowhere"]),
        ("file", ["file.txt is not a folder"]),
        ("flat", ["week1/cat", "a directory of its own"]),
        ("empty", ["empty has no class directory"]),
        ("class without images", ["week1/bat has no image"]),
        ("sizes", ["8x8 pixels", "16x12 pixels", "dog/large.png", "--size"]),
        ("unreadable", ["2 of 36 files cannot be read", "dog/00.png", "eel/01.png", "--skip-unreadable"]),
        ("npz", ["bad.npz"]),
        ("vectors", ["5"]),
        ("head", ["nothing"]),
        ("--epochs 0", ["epochs 0"]),
        ("--epochs many", ["epochs 'many'"]),
        ("--size 0", ["size 0"]),
        ("--size big", ["size 'big'"]),
        ("--method nope", ["unknown method 'nope'"]),
        ("--benchmark tiny", ["--benchmark"]),
        ("--tasks 3", ["--tasks"]),
        ("--device cuda:99", ["cuda:99"]),
        ("--spec absent.json", ["absent.json"]),
    ],
)
def test_a_first_learn_that_cannot_be_gets_one_line_and_leaves_no_folder(place, capsys, name, expected):
    flags = wrong_data(name)
    line = refused(capsys, "learn", "--out", "new/er", *NEW[2:], *flags)
    for text in expected:
        assert text in line
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["missing", "flat", "empty", "class without images", "unreadable", "npz", "vectors"])
def test_a_further_learn_that_cannot_be_changes_nothing(place, capsys, name):
    flags = wrong_data(name)
    before = contents(place / "first")
    refused(capsys, "learn", "first", *flags)
    assert contents(place / "first") == before


def test_what_cannot_be_read_can_be_left_out(place, capsys):
    flags = [*wrong_data("unreadable"), "--skip-unreadable"]
    assert "learned 34 examples of 3 new classes" in said(capsys, "learn", "--out", "new", *NEW, *flags)
    assert "new has learned week1 already" in refused(capsys, "learn", "new", *flags)
    (Path("week1") / "dog" / "00.png").write_bytes(Path("week1/dog/02.png").read_bytes())
    assert "learned 35 examples of 0 new classes, 3 known" in said(capsys, "learn", "new", *flags)


def test_images_of_any_size_with_a_size(place, capsys):
    flags = [*wrong_data("sizes"), "--size", "8"]
    assert "learned 37 examples" in said(capsys, "learn", "--out", "new", *NEW, *flags)
    draw(Path("large"), ("gnu",), size=20)
    assert "learned 12 examples of 1 new class" in said(capsys, "learn", "new", "--data", "large")
    assert len(said(capsys, "predict", "new", "large/gnu/00.png", "week1/dog/large.png").splitlines()) == 2


def test_a_spec_file_makes_a_network(place, capsys):
    Path("mine.toml").write_text('method = "er"\nepochs = 1\nbuffer_capacity = 7\n')
    said(capsys, "learn", "--data", "week1", "--out", "new", "--spec", "mine.toml", "--device", "cpu", "--threads", "1")
    learner = tfcsr.Learner.load("new")
    assert (learner.spec.method, learner.spec.epochs, learner.recall().asked) == ("er", 1, 7)


def test_the_spec_file_of_a_run_makes_a_network_or_says_why_not(place, capsys):
    """It names a benchmark, which a learner has not: left out, as options of other methods are, or refused."""
    said(capsys, "run", "--benchmark", "folder:week1", "--out", "run", "--epochs", "1", "--device", "cpu")
    if ended(["learn", "--data", "week1", "--out", "new", "--spec", "run/spec.json"]) == 2:
        assert capsys.readouterr().err.count("\n") == 1
        assert not Path("new").exists()
    else:
        assert tfcsr.Learner.load("new").spec.epochs == 1


@pytest.mark.parametrize("command", [["predict", "{}", "week1"], ["recall", "{}"], ["learn", "{}", "--data", "week1"]])
@pytest.mark.parametrize("folder", ["nowhere", "week1", "week1/cat/00.png", "damaged", "unfinished"])
def test_a_folder_that_holds_no_network_is_named(place, capsys, command, folder):
    Path("damaged").mkdir()
    Path("damaged/spec.json").write_text("{")
    tfcsr.Learner().save("unfinished")
    before = contents(place)
    arguments = [text.format(folder) for text in command]
    if arguments[:2] == ["learn", "unfinished"]:
        return  # it may begin here
    line = refused(capsys, *arguments)
    assert folder in line or "learned nothing yet" in line
    assert contents(place) == before


def test_a_damaged_network_is_one_line(place, capsys):
    (state,) = Path("both/checkpoint").glob("*.safetensors")
    state.write_bytes(state.read_bytes()[:100])
    for arguments in (["predict", "both", "week1"], ["recall", "both"], ["learn", "both", "--data", "week1"]):
        assert "both" in refused(capsys, *arguments)


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("absent.png", "absent.png (no such file"),
        ("words.png", "words.png (not a PNG, JPEG or WebP image)"),
        ("notes.txt", "notes.txt (not a PNG, JPEG or WebP image)"),
        ("nothing.png", "nothing.png (empty)"),
        ("hollow", "hollow has no image"),
        ("vectors.npz", "uint8 [N, 1, 8, 8]"),
        ("broken.npz", "broken.npz"),
        ("absent.npz", "absent.npz"),
    ],
)
def test_what_cannot_be_asked_about_is_one_line(place, capsys, form, file, expected):
    Path("words.png").write_text("no image")
    Path("notes.txt").write_text("no image")
    Path("nothing.png").touch()
    Path("hollow").mkdir()
    Path("broken.npz").write_bytes(b"PK no archive")
    np.savez("vectors.npz", x=np.zeros((3, 5), np.float32))
    assert expected in refused(capsys, "predict", "both", "week1/cat/00.png", file, *form)


def test_what_cannot_be_asked_about_can_be_left_out(place, capsys):
    Path("words.png").write_text("no image")
    main(["predict", "both", "words.png", "week1/cat/00.png", "absent.png", "--skip-unreadable"])
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()] == ["week1/cat/00.png"]
    assert printed.err == "tfcsr: 2 files left out: words.png, absent.png\n"


def test_images_for_a_network_of_vectors(place, capsys):
    x, y = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32), np.arange(30) % 3
    learner = tfcsr.Learner(model=torch.nn.Linear(5, 3), epochs=1, device="cpu")
    learner.learn(x, y)
    learner.save("linear")
    line = refused(capsys, "predict", "linear", "week1/cat/00.png")
    assert "model=" in line or "float32 [N, 5]" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["predict", "both"], "FILE"),
        (["predict", "both", "week1", "--json", "--csv"], "choose one"),
        (["predict", "both", "week1", "--device", "tpu"], "tpu"),
        (["recall"], "MODEL"),
        (["learn"], "--data"),
        (["learn", "both", "--data", "week1", "--epoch", "3"], "--epoch"),
    ],
)
def test_other_mistakes(place, capsys, arguments, expected):
    before = contents(place)
    assert expected in refused(capsys, *arguments)
    assert contents(place) == before


def test_help_names_every_field_of_a_learner_and_none_of_a_benchmark(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["learn", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name in tfcsr.Learner().spec.options():
        assert f"--{name.replace('_', '-')}" in text
    for name in ("--benchmark", "--tasks", "--class-order", "--keep-model"):
        assert name not in text
