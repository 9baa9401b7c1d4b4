import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tfcsr
from tfcsr.cli import main, parse
from tfcsr.spec import FIELDS, LearnerSpec, RunSpec

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
    assert printed.startswith("tfcsr on tiny, seed 3: epochs 1")
    assert "policy" not in printed.splitlines()[0]
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
            "3",
            "--out",
            str(tmp_path),
            *QUICK,
        ]
    )
    printed = capsys.readouterr().out
    for text in ("er ", "tfcsr ", "finetune ", "vs er", "+0.00 ±0.00", "9/9", "comparison.json"):
        assert text in printed
    assert len(json.loads((tmp_path / "comparison.json").read_text())["runs"]) == 9


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_of_all_methods_fits(capsys, tmp_path_factory, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = tmp_path_factory.getbasetemp() / "all-methods"  # run once, read the second time
    main(["compare", "--benchmark", "tiny", "--seeds", "2", "--workers", "1", "--out", str(out), *QUICK])
    printed = capsys.readouterr().out
    assert "tfcsr-spaced" in printed
    assert "…" not in printed
    assert "±" not in printed
    assert printed.count("n 2, no interval") == 1
    assert max(map(len, printed.splitlines())) <= width + len(str(out))


@pytest.mark.parametrize("width", [60, 80])
def test_a_run_of_ten_tasks_shows_every_number(capsys, tmp_path_factory, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = tmp_path_factory.getbasetemp() / "ten-tasks"
    tiny = ["--benchmark", "split-digits", "--tasks", "10", "--max-per-class", "4", "--method", "er"]
    main(["run", *tiny, "--out", str(out), *QUICK])
    table = capsys.readouterr().out.split("on each task")[1].split("kept in")[0]
    assert "…" not in table
    assert "..." not in table
    result = json.loads((out / "result.json").read_text())
    for i, row in enumerate(result["accuracy_matrix"]):
        assert all(f" {value:.1f}" in table for value in row[: i + 1])


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("methods", ["finetune", "joint", "er", "ewc", "si", "tfcsr", "tfcsr-spaced", "mgp"]),
        ("benchmarks", ["split-digits", "split-mnist", "split-fashion-mnist", "split-cifar10", "split-cifar100"]),
        ("models", ["cnn", "mlp", "resnet18"]),
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
    assert len(lines) == 5
    assert "tfcsr data fetch cifar100" in lines[4]
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


def groups_of(capsys, *words: str) -> dict[str, list[str]]:
    """The flags of a help text under their headings, in order."""
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    groups: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            groups[line.removesuffix(":")] = []
        elif line.startswith("  --"):
            list(groups.values())[-1].append(re.match("  (--[a-z-]+)", line)[1])
        elif line.startswith("  tfcsr "):
            list(groups.values())[-1].append(line.strip())
    return groups


def test_help_is_grouped_with_the_methods_own_first(capsys):
    groups = groups_of(capsys, "run", "--method", "derpp")
    assert list(groups) == [
        "options",
        "options of derpp",
        "data",
        "training",
        "memory",
        "output",
        "examples",
    ]
    assert groups["options of derpp"] == ["--method", "--alpha", "--beta"]
    assert {"--benchmark", "--tasks", "--data-dir"} <= set(groups["data"])
    assert {"--epochs", "--lr", "--device"} <= set(groups["training"])
    assert {"--buffer-capacity", "--policy", "--new-data"} <= set(groups["memory"])
    assert {"--out", "--checkpoint-every"} <= set(groups["output"])
    every = [flag for name, flags in groups.items() if name != "examples" for flag in flags]
    assert len(every) == len(set(every))
    assert len(groups["examples"]) == 2


def test_a_parts_options_stand_beside_what_chooses_it(capsys):
    assert {"--schedule", "--probe-size", "--boxes"} <= set(groups_of(capsys, "run", "--schedule", "leitner")["recall"])
    groups = groups_of(capsys, "run", "--method", "finetune")
    assert groups["options of finetune"] == ["--method"]
    assert not {"memory", "recall"} & groups.keys()


def test_compare_and_learn_are_grouped_likewise(capsys):
    both = groups_of(capsys, "compare", "--methods", "er,ewc")
    assert both["options of er, ewc"] == ["--weighting", "--ewc-lambda", "--fisher"]
    assert {"--methods", "--seeds"} <= set(both["options"])
    everything = groups_of(capsys, "compare")
    assert {"--alpha", "--si-lambda"} <= set(everything["options of the methods"])
    assert "--mastery-threshold" in everything["recall"]  # mgp has one, too: the help is of one of them
    learn = groups_of(capsys, "learn")
    assert {"--data", "--size", "--skip-unreadable"} <= set(learn["data"])
    assert {"--out", "--restart"} <= set(learn["output"])
    assert {"memory", "recall"} <= learn.keys()


@pytest.mark.parametrize("command", ["run", "compare", "learn"])
def test_the_examples_of_the_help_are_good_ones(capsys, command):
    examples = groups_of(capsys, command)["examples"]
    assert len(examples) == 2
    for example in examples:
        words = shlex.split(example)
        options = parse(words[1:])
        assert words[:2] == ["tfcsr", command]
        names = {"command", "folder", "data", "size", "head", "skip_unreadable", "again", "restart", "out"}
        names |= {"methods", "seeds", "baseline", "workers", "spec", "equal_steps", "class_orders", "engine", "address"}
        spec = LearnerSpec if command == "learn" else RunSpec
        spec.from_dict({name: value for name, value in options.items() if name not in names})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run --lr_schedule cosine", "did you mean --lr-schedule? see tfcsr run --help"),
        ("run --method er --lr-sched cosine", "did you mean --lr-schedule?"),
        ("run --learning-rate 3", "did you mean --lr?"),
        ("run --buffer_size 3", "did you mean --buffer-capacity?"),
        ("run --num-epochs 3", "did you mean --epochs?"),
        ("run --no-keep-modell", "did you mean --no-keep-model?"),
        ("run --seeds 3", "did you mean --seed?"),
        ("compare --seed 3", "did you mean --seeds?"),
        ("compare --method er", "did you mean --methods?"),
        ("compare --worker=3", "did you mean --workers?"),
        ("run --ewc-lamda=3", "did you mean --ewc-lambda, an option of method ewc?"),
        ("run --method er --ewc_lambda 3", "--ewc_lambda is an option of method ewc, which is not chosen here"),
        ("plot x --figur y", "did you mean --figure? see tfcsr plot --help"),
        ("data fetch mnist --dta-dir x", "did you mean --data-dir? see tfcsr data fetch --help"),
    ],
)
def test_what_a_misspelt_flag_may_mean(capsys, arguments, said):
    assert said in refused(capsys, *arguments.split())


@pytest.mark.parametrize(
    "arguments", ["run --nonsense 3", "plot x --alpa y", "run nonsense", "report x --ewc-lambda 3"]
)
def test_nothing_is_suggested_where_nothing_is_close(capsys, arguments):
    line = refused(capsys, *arguments.split())
    assert "unrecognized arguments" in line
    assert "did you mean" not in line


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
