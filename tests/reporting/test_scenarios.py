"""The study of the scenarios and its page, from records made by hand."""

import pytest

from tfcsr.cli import main
from tfcsr.errors import SpecError
from tfcsr.experiments.record import Record
from tfcsr.reporting.scenarios import finding_lines, write_pages
from tfcsr.scenarios.arms import ARMS
from tfcsr.scenarios.study import open_study


def record(spec, accuracy):
    return Record(
        accuracy_after_task=[accuracy] * spec.tasks,
        held_out_accuracy=None,
        replay_batches=0,
        optimizer_steps=spec.steps * spec.tasks,
        epochs_per_task=[1] * spec.tasks,
        probes=[],
        seconds=1.0,
        collapsed=None,
        weights_sha256="",
        spec=spec.to_dict(),
        environment={},
        task_accuracy=[accuracy] * spec.tasks,
    )


def study_of(tmp_path, values):
    """With these accuracies, by arm and seed."""
    study = open_study(["scenarios"], out=tmp_path)
    for name, accuracies in values.items():
        for seed, accuracy in enumerate(accuracies):
            study.add(record(ARMS[name].spec(seed), accuracy))
    return study


def test_every_arm_is_a_run_that_can_be():
    for arm in ARMS.values():
        spec = arm.spec(0)
        assert (spec.class_order, arm.spec(3).class_order) == (tuple(range(10)), 3)
        assert spec.pixels == "unit"
        assert spec.hidden == (400, 400)
    assert ARMS["domain/ewc"].spec(0).ewc_lambda == 5e9  # (1e10 / 2) F d² there
    assert ARMS["domain/si"].spec(0).si_lambda == 1e5  # 5e4 omega d² there
    assert len(open_study(["scenarios"], out="nowhere").plan()) == 5 * len(ARMS) == 105


def test_a_value_like_ours_lies_inside_and_one_far_away_differs(tmp_path):
    study = study_of(
        tmp_path,
        {
            "task/finetune": [88.0, 90.0, 92.0, 89.0, 91.0],  # 89.4 and 91.0 outside
            "task/ewc": [50.0, 50.5, 51.0, 50.2, 50.8],  # 99.2 and 99.4
        },
    )
    none, ewc = study.row("task/finetune"), study.row("task/ewc")
    assert [look.inside for look in none.looks] == [True, True]
    assert [look.inside for look in ewc.looks] == [False, False]
    assert ewc.difference.mean == pytest.approx(-39.5)
    assert finding_lines(study) == [
        "2 of 4 outside values lie inside our prediction intervals.",
        "With all 4 looks counted (Holm, 5 %), these differ: EWC in `task`.",
    ]


def test_the_plain_mean_over_tasks_is_judged(tmp_path):
    study = open_study(["scenarios"], out=tmp_path)
    spec = ARMS["task/er"].spec(0)
    values = {"task_accuracy": [100.0, 90.0, 80.0, 70.0, 60.0], "accuracy_after_task": [50.0] * 5}
    study.add(Record(**{**vars(record(spec, 1.0)), **values}))
    assert study.row("task/er").values == {0: 80.0}


def test_the_page(tmp_path):
    values = {
        "permuted/finetune": [60.0, 61.0, 62.0],
        "permuted/ewc": [70.0, 71.5, 72.0],
        "domain/er": [94.0, 93.0, 94.5],
    }
    study = study_of(tmp_path, values)
    paths = write_pages(study, tmp_path)
    assert {path.suffix for path in paths} == {".png", ".svg", ".md"}
    text = (tmp_path / "scenarios.md").read_text()
    assert "| ER | 94.1 | 93.83" in text
    assert "On Permuted MNIST, EWC beats plain training: +10.17" in text
    again = open_study(["scenarios"], out=tmp_path)
    assert again.row("domain/er").values == study.row("domain/er").values


def test_without_a_run_it_says_so(tmp_path, capsys):
    main(["reproduce", "scenarios/task", "--no-run", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "still to run: 30 runs" in said
    assert "no runs" in (tmp_path / "scenarios.md").read_text()
    assert not (tmp_path / "scenarios.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["scenarios/none"], "unknown target"), (["scenarios", "--data", "split-digits"], "data split-digits")],
)
def test_mistakes_are_one_line(arguments, words, capsys, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_unknown_sections_are_refused():
    with pytest.raises(SpecError, match="use one of scenarios, scenarios/"):
        open_study(["scenarios/none"], out="nowhere")
