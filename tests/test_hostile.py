"""Files that somebody else wrote, in good faith or bad."""

import io
import json
import struct
import sys

import pytest
import safetensors.torch
from rich.console import Console

import tfcsr
from tests.conftest import make_spec
from tests.nightly.fuzz import READERS, fuzz
from tests.reporting.conftest import overview
from tfcsr.cli import main
from tfcsr.errors import LONGEST, OutputError, TfcsrError, printable
from tfcsr.experiments.compare import summarise
from tfcsr.experiments.result import Result
from tfcsr.reporting.tables import comparison_notes, comparison_table, run_table
from tfcsr.training.checkpoint import NONSENSE

ESCAPES = "\x1b]0;owned\x07 \x1b[2J \r\n \x9b31m \u202e \udc80"


@pytest.mark.parametrize("reader", READERS)
def test_only_our_error_comes_out(reader):
    inputs = 300 if reader == "records" else 1200  # it reads eight whole specs each time
    refused = fuzz(reader, inputs, seed=1)
    assert 0.6 * inputs < refused <= inputs


def test_printable():
    assert printable("naïve 100 %: [bold]") == "naïve 100 %: [bold]"
    assert printable(ESCAPES).isprintable()
    assert printable("a\x1b[31m\n") == r"a\x1b[31m\n"


def test_an_error_is_one_line_that_steers_no_terminal():
    assert str(TfcsrError(f"bad {ESCAPES}")).isprintable()
    long = str(TfcsrError("start" + "9" * 10**6 + "end"))
    assert len(long) < LONGEST + 10
    assert long.startswith("start9")
    assert long.endswith("9end")


def test_a_header_that_claims_the_world_is_refused_before_it_is_made():
    entry = {"x": {"dtype": "F32", "shape": [1 << 31, 1 << 10], "data_offsets": [0, 1 << 43]}}
    header = json.dumps(entry).encode()
    for size in (len(header), 1 << 62):
        with pytest.raises(NONSENSE):
            safetensors.torch.load(struct.pack("<Q", size) + header + bytes(16))


@pytest.fixture(scope="module")
def sound():
    return tfcsr.run(make_spec(method="tfcsr", epochs=1)).to_dict()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("final_accuracy", "99", "final_accuracy is '99'"),
        ("final_accuracy", float("nan"), "final_accuracy is nan"),
        ("final_accuracy", True, "final_accuracy is True"),
        ("seconds", 10**400, "seconds is 1000"),
        ("forgetting", [], "forgetting is"),
        ("accuracy_matrix", [[1.0, 2.0]], "is of 1 task"),
        ("accuracy_matrix", [], "is of 0 tasks"),
        ("accuracy_matrix", [[1.0], ["x"], [2.0]], "accuracy_matrix is"),
        ("epochs_per_task", [1.5, 1, 1], "epochs_per_task is"),
        ("test_sizes", [1], "is of 3 tasks"),
        ("probes", [{"task": 1}], "a probe is"),
        ("probes", [{"task": 9, "epoch": 1, "recall": 1.0, "passed": True, "next_epoch": 2}], "a probe is of task 9"),
        ("spec", {}, "its spec has benchmark None"),
        ("spec", [], "spec is []"),
        (
            "spec",
            {"benchmark": "x", "method": "er", "seed": 0, "scenario": ["class"]},
            "its spec has scenario ['class']",
        ),
        ("environment", None, "environment is None"),
    ],
)
def test_a_result_is_checked_before_it_is_believed(sound, name, value, said):
    with pytest.raises(OutputError) as caught:
        Result.from_dict(sound | {name: value}, "r.json")
    assert str(caught.value).startswith("r.json is damaged: ")
    assert said in str(caught.value)


def test_results_pass_as_they_are(sound):
    assert Result.from_dict(json.loads(json.dumps(sound))).to_dict() == sound
    one_task = tfcsr.run(make_spec(method="finetune", epochs=1, tasks=1)).to_dict()
    assert Result.from_dict(json.loads(json.dumps(one_task))).forgetting is None


@pytest.mark.parametrize("name", [ESCAPES, "[bold red]x[/bold red]", "[/nope]", "$\\frac{", "a\tb"])
def test_names_are_shown_as_they_are(sound, name):
    spec = sound["spec"] | {"method": name, "benchmark": name}
    result = Result.from_dict(sound | {"spec": spec})
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=500)
    comparison = summarise(name, name, [result], {name: f"no luck {name}"})
    console.print(run_table(result))
    console.print(comparison_table(comparison))
    for line in comparison_notes(comparison):
        console.print(line, markup=False, highlight=False)
    text = shown.getvalue()
    assert text.count(printable(name)) >= 4
    assert text.replace("\n", "").replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[3m", "").isprintable()
    overview([result]).draw_without_rendering()


def test_the_command_line_shows_nothing_raw(tmp_path, capsys):
    (tmp_path / "spec.json").write_text(json.dumps(make_spec(method="er").to_dict() | {"method": ESCAPES}))
    folder = tmp_path / "runs" / "\x1b[31mred"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("{}")
    commands = [["resume", str(tmp_path)], ["run", "--out", str(tmp_path)], ["run", "--spec", str(folder)]]
    for arguments in commands:
        with pytest.raises(SystemExit) as caught:
            main([*arguments])
        assert caught.value.code == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.rstrip("\n").isprintable()
    main(["list", "runs", str(tmp_path / "runs")])
    assert capsys.readouterr().out == r"\x1b[31mred  incomplete" + "\n"


def test_runs_are_listed_with_how_far_they_are(tmp_path, capsys, sound):
    assert tfcsr.run(make_spec(method="er", epochs=1, out=str(tmp_path / "a"))).final_accuracy < 100
    for name, text in (("b", "{}"), ("c", '{"final_accuracy": 1.2.3}'), ("d", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(text)
    (tmp_path / "e" / "checkpoint").mkdir(parents=True)
    (tmp_path / "e" / "spec.json").touch()
    for number in (9, 10):
        (tmp_path / "e" / "checkpoint" / f"{number}.json").touch()
    (tmp_path / "nothing").mkdir()
    main(["list", "runs", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    accuracy = json.loads((tmp_path / "a" / "result.json").read_text())["final_accuracy"]
    assert lines[0] == f"a  {accuracy:.2f} %"
    assert [line.split(":")[0] for line in lines[1:4]] == ["b  damaged", "c  damaged", "d  damaged"]
    assert lines[4:] == ["e  incomplete, saved after 10 epochs"]
    main(["list", "runs", str(tmp_path / "nothing")])
    assert "no runs in" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["list", "runs", str(tmp_path / "absent")])


def test_runs_are_listed_without_torch():
    import subprocess

    check = "import sys, tfcsr.experiments.folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
