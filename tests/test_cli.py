import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfcsr
from tfcsr.cli import main
from tfcsr.spec import FIELDS

QUICK = ["--device", "cpu", "--threads", "1", "--epochs", "1"]


def refused(capsys, *arguments: str) -> str:
    """The one line that a mistake gets."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tfcsr: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_run_prints_its_table_and_keeps_its_result(capsys, tmp_path):
    out = tmp_path / "run"
    main(["run", "--benchmark", "tiny", "--method", "tfcsr", "--seed", "3", "--out", str(out), *QUICK])
    printed = capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    assert result["spec"]["seed"] == 3
    assert f"final accuracy {result['final_accuracy']:.2f} %" in printed
    assert "protocol default: held_out 0, new_data all, replay_view fresh, augment none" in printed
    main(["run", "--benchmark", "tiny", "--method", "tfcsr", "--seed", "3", "--out", str(out), *QUICK])
    assert "already complete" in capsys.readouterr().out


def test_a_specs_file_repeats_its_run(capsys, tmp_path):
    main(["run", "--benchmark", "tiny", "--method", "er", "--out", str(tmp_path / "one"), *QUICK])
    main(["run", "--spec", str(tmp_path / "one" / "spec.json"), "--out", str(tmp_path / "two")])
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert one["weights_sha256"] == two["weights_sha256"]


def test_flags_win_over_the_file(capsys, tmp_path):
    (tmp_path / "spec.toml").write_text('benchmark = "tiny"\nmethod = "er"\nseed = 1\n')
    out = tmp_path / "run"
    main(["run", "--spec", str(tmp_path / "spec.toml"), "--seed", "2", "--out", str(out), *QUICK])
    spec = json.loads((out / "spec.json").read_text())
    assert (spec["method"], spec["seed"]) == ("er", 2)


def test_compare_prints_a_row_per_method(capsys, tmp_path):
    main(
        [
            "compare",
            "--benchmark",
            "tiny",
            "--methods",
            "er,tfcsr,finetune",
            "--seeds",
            "2",
            "--out",
            str(tmp_path),
            *QUICK,
        ]
    )
    printed = capsys.readouterr().out
    for text in ("er ", "tfcsr ", "finetune ", "vs er", "+0.00 ±0.00", "6/6", "comparison.json"):
        assert text in printed
    assert len(json.loads((tmp_path / "comparison.json").read_text())["runs"]) == 6


def test_the_table_of_all_methods_fits_80_columns(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["compare", "--benchmark", "tiny", "--seeds", "2", "--out", str(tmp_path), *QUICK])
    printed = capsys.readouterr().out
    assert "tfcsr-spaced" in printed
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("methods", ["finetune", "joint", "er", "ewc", "si", "tfcsr", "tfcsr-spaced", "mgp"]),
        ("benchmarks", ["split-digits", "split-mnist", "split-cifar100"]),
        ("models", ["cnn", "resnet18"]),
        ("policies", ["reservoir"]),
        ("schedules", ["expanding", "fixed"]),
    ],
)
def test_lists(capsys, what, names):
    main(["list", what])
    rows = dict((line + " ").split(" ", 1) for line in capsys.readouterr().out.splitlines())
    for name in names:
        assert len(rows[name]) > 20


def test_data_commands(capsys, tmp_path):
    main(["data", "list", "--data-dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "tfcsr data fetch cifar100" in lines[2]
    main(["data", "check", "digits"])
    assert "ok" in capsys.readouterr().out
    main(["data", "fetch", "digits"])
    assert "nothing to fetch" in capsys.readouterr().out
    assert "mnist" in refused(capsys, "data", "check", "mnist", "--data-dir", str(tmp_path))
    assert "imagenet" in refused(capsys, "data", "fetch", "imagenet")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_spec_field_is_a_flag_with_its_help(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, option in FIELDS.items():
        if command == "run" or name not in ("method", "seed"):
            assert f"--{name.replace('_', '-')}" in text
            assert " ".join(option.help.split())[:30] in text.replace("- ", "-")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "nope"], "unknown method 'nope': use one of derpp, er"),
        (["--benchmark", "nope"], "unknown benchmark 'nope'"),
        (["--model", "nope"], "unknown model 'nope'"),
        (["--buffer-capacity", "0"], "buffer_capacity 0"),
        (["--buffer-capacity", "-3"], "buffer_capacity -3"),
        (["--batch-size", "1"], "batch_size 1"),
        (["--epochs", "0"], "epochs 0"),
        (["--epochs", "ten"], "epochs 'ten' is not a whole number"),
        (["--mastery-threshold", "101"], "mastery_threshold 101"),
        (["--gap-multiplier", "0.5"], "gap_multiplier 0.5"),
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--epochs"], "--epochs: expected one argument"),
        (["--spec", "absent.json"], "cannot read the spec file absent.json"),
        (["--benchmark", "split-mnist", "--data-dir", "/nowhere"], "/nowhere"),
        (["--device", "cuda:99"], "device cuda:99"),
        (["--precision", "tf32", "--device", "cpu"], "tf32 needs a GPU"),
    ],
)
def test_mistakes_get_one_line_and_write_nothing(capsys, tmp_path, arguments, message):
    out = tmp_path / "run"
    assert message in refused(capsys, "run", "--benchmark", "tiny", *arguments, "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--seeds", "x"], "seeds 'x'"),
        (["compare", "--seeds", "0"], "seeds 0 is impossible"),
        (["compare", "--seeds", "99999999999"], "seeds 99999999999 is impossible: give how many, from 1 to 10000"),
        (["compare", "--seeds", "1,1"], "each once"),
        (["compare", "--methods", "er,nope"], "unknown method 'nope'"),
        (["compare", "--methods", "er", "--baseline", "si"], "'si' is not among"),
        (["compare", "--workers", "two"], "workers 'two'"),
        (["list", "everything"], "cannot list 'everything'"),
        (["nonsense"], "invalid choice"),
        ([], "required"),
    ],
)
def test_other_mistakes(capsys, arguments, message):
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize("below", ["", "/runs", "/runs/of/mine"])
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--benchmark", "tiny", *QUICK],
        ["compare", "--benchmark", "tiny", "--methods", "er,si", "--seeds", "2", *QUICK],
        ["reproduce", "fig1", "--data", "split-digits"],
        ["reproduce", "fig1", "--data", "split-digits", "--dry-run"],
    ],
)
def test_an_out_that_cannot_be_a_folder_is_refused_before_any_run(capsys, tmp_path, command, below):
    file = tmp_path / "thesis.tex"
    file.write_text("all of it")
    assert f"{file} is not a folder: choose another --out" in refused(capsys, *command, "--out", f"{file}{below}")
    assert file.read_text() == "all of it"


def test_an_out_with_another_spec_is_refused(capsys, tmp_path):
    out = str(tmp_path / "run")
    main(["run", "--benchmark", "tiny", "--out", out, *QUICK])
    capsys.readouterr()
    assert "another spec" in refused(capsys, "run", "--benchmark", "tiny", "--seed", "9", "--out", out, *QUICK)


def test_ctrl_c_is_no_traceback(capsys, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tfcsr.experiments.run.run", interrupted)
    with pytest.raises(SystemExit) as caught:
        main(["run", "--benchmark", "tiny", "--out", str(tmp_path / "run"), *QUICK])
    assert caught.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_the_installed_command_and_the_module(tmp_path):
    env = os.environ | {"PYTHONPATH": str(Path(tfcsr.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "tfcsr", "--version"], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == f"tfcsr {tfcsr.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "tfcsr", "run", "--lr", "0"],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr.count("\n"), list(tmp_path.iterdir())) == (2, 1, [])
