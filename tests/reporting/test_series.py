import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.reporting.conftest import HOSTILE, change, one_run
from tfcsr.cli import parse
from tfcsr.commands import spec_fields
from tfcsr.experiments.reading import Results, Run
from tfcsr.experiments.statistics import estimate, paired_difference
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.reporting.series import LONGEST, grouped
from tfcsr.reporting.styles import LINES, OTHERS, SHADES, style, styles
from tfcsr.spec import RunSpec


def groups_of(folder):
    results = Results(folder)
    results.look()
    return grouped(results.runs, results.baseline)


def fake(**fields) -> Run:
    run = Run(Path("nowhere"))
    run.spec = RunSpec.from_dict({"benchmark": "split-digits"} | fields).to_dict()
    return run


def labels(*runs: Run, baseline: str | None = None) -> list[str]:
    return [one.label for group in grouped(runs, baseline) for one in group.series]


def test_runs_of_one_spec_but_for_the_seed_are_a_series(grid):
    (group,) = groups_of(grid)
    assert (group.name, group.tasks) == ("tiny", 3)
    assert {one.label: [run.spec["seed"] for run in one.runs] for one in group.series} == {
        "joint": [0, 1],
        "er, buffer_capacity 24": [0, 1],
        "er, buffer_capacity 12": [0, 1],
        "tfcsr": [0, 1],
        "finetune": [0, 1],
    }
    means = [one.accuracy().mean for one in group.series]
    assert means == sorted(means, reverse=True)


def test_statistics_are_those_of_the_house(grid):
    (group,) = groups_of(grid)
    er = next(one for one in group.series if one.label == "er, buffer_capacity 24")
    for one in group.series:
        ours = {seed: result.final_accuracy for seed, result in one.results().items()}
        assert one.accuracy() == estimate(list(ours.values()))
        if one.method == "er":
            assert one.difference() is None
        else:
            assert one.against is er
            theirs = {seed: result.final_accuracy for seed, result in er.results().items()}
            assert one.difference() == paired_difference(ours, theirs)
        assert one.same_weights() == (2 if one.method == "tfcsr" else 0)


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([{"method": "er"}, {"method": "mgp"}], ["er", "mgp"]),  # mgp's own defaults distinguish nothing
        (
            [{"method": "er"}, {"method": "er", "buffer_capacity": 500}],
            ["er, buffer_capacity 50", "er, buffer_capacity 500"],
        ),
        ([{"method": "er", "buffer_capacity": 500}, {"method": "tfcsr"}], ["er, buffer_capacity 500", "tfcsr"]),
        ([{"method": "er", "lr": 0.01}, {"method": "tfcsr", "lr": 0.01}], ["er", "tfcsr"]),  # all alike
        ([{"method": "er"}, {"method": "er", "protocol": "paper"}], ["er, protocol default", "er, protocol paper"]),
        (
            [
                {"method": "er", "protocol": "paper"},
                {"method": "er"},
                {"method": "er", "buffer_capacity": 99},
                {"method": "si"},
            ],
            [*(f"er, protocol default, buffer_capacity {c}" for c in (50, 99)), "er, protocol paper", "si"],
        ),
        ([{"method": "si"}, {"method": "si", "si_lambda": 3.0}], ["si, si_lambda 100", "si, si_lambda 3"]),
        (
            [
                *({"method": "tfcsr", "buffer_capacity": c, "mastery_threshold": 1.0} for c in (5, 6, 7)),
                {"method": "tfcsr", "probe_mode": "placebo", "schedule": "fixed", "initial_gap": 7.0, "probe_size": 9},
            ],
            [
                *(f"tfcsr, buffer_capacity {c}" for c in (5, 6, 7)),
                "tfcsr, buffer_capacity 50, schedule fixed, probe_size 9, probe_mode placebo, initial_gap 7,"
                " mastery_threshold 95",
            ],
        ),
        (
            [{"method": "er", "protocol": "paper"}, {"method": "er", "protocol": "paper", "augment": "crop-flip"}],
            ["er, augment crop-flip", "er, augment none"],
        ),
    ],
)
def test_labels_say_what_differs(specs, said):
    assert sorted(labels(*(fake(**spec) for spec in specs))) == sorted(said)


def test_several_benchmarks_and_numbers_of_tasks_stand_apart():
    runs = [fake(), fake(benchmark="split-mnist"), fake(tasks=2)]
    assert [group.name for group in grouped(runs)] == ["split-digits, 2 tasks", "split-digits, 5 tasks", "split-mnist"]


def test_each_stands_against_the_baseline_most_like_it():
    runs = [fake(method=m, buffer_capacity=c) for m in ("er", "tfcsr") for c in (50, 500)]
    (group,) = grouped(runs)
    pairs = {one.label: one.against.label for one in group.series if one.against}
    assert pairs == {f"tfcsr, buffer_capacity {c}": f"er, buffer_capacity {c}" for c in (50, 500)}
    (group,) = grouped([fake(method="er"), fake(method="si")], baseline="si")
    assert {one.label: one.against and one.against.label for one in group.series} == {"er": "si", "si": None}
    (group,) = grouped([fake(method="finetune"), fake(method="si")])
    assert {one.label: one.against and one.against.label for one in group.series} == {
        "finetune": None,
        "si": "finetune",
    }
    (group,) = grouped([fake(method="mgp"), fake(method="si")], baseline="absent")
    assert all(one.against is None for one in group.series)


def test_a_run_that_is_here_twice_counts_once(copy):
    shutil.copytree(one_run(copy), copy / "again")
    (group,) = groups_of(copy)
    tfcsr_ = next(one for one in group.series if one.label == "tfcsr")
    assert (len(tfcsr_.runs), tfcsr_.repeated) == (2, 1)
    (one_run(copy) / "result.json").unlink()
    (group,) = groups_of(copy)
    assert len(next(one for one in group.series if one.label == "tfcsr").results()) == 2


def test_the_command_is_the_run(grid):
    for group in groups_of(grid):
        for one in group.series:
            for run in one.runs:
                assert one.command is not None
                command = shlex.split(f"{one.command} --seed {run.spec['seed']}")
                assert command[:2] == ["tfcsr", "run"]
                options = parse(command[1:])
                del options["command"]
                again = RunSpec.from_dict(spec_fields(options))
                assert again.key() == RunSpec.from_dict(run.spec).key()
                assert run.name.endswith(again.key())


def test_a_spec_of_somebody_elses_method_has_no_command_but_a_place(copy):
    folder = one_run(copy)
    spec = json.loads((folder / "spec.json").read_text()) | {"method": HOSTILE}
    change(folder / "spec.json", **spec)
    change(folder / "result.json", spec=spec)
    (group,) = groups_of(copy)
    one = next(one for one in group.series if one.method == HOSTILE)
    assert one.command is None
    assert "unknown method" in one.why_no_command
    assert one.colour in OTHERS


def test_long_names_are_cut_and_stay_apart(copy):
    for seed in (0, 1):
        folder = one_run(copy, "tfcsr", seed)
        spec = json.loads((folder / "spec.json").read_text()) | {"method": "x" * 10**6, "policy": f"{'p' * 200}{seed}"}
        change(folder / "result.json", spec=spec)
    (group,) = groups_of(copy)
    names = [one.label for one in group.series]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= LONGEST + 4


def test_a_variant_keeps_the_colour_and_changes_the_line():
    (group,) = grouped([fake(method="er", buffer_capacity=c) for c in (50, 60, 70)])
    assert len({one.colour for one in group.series}) == 1
    assert len({one.line for one in group.series}) == 3


def test_every_series_has_a_look_of_its_own():
    """However many methods there are, ours or not, and however many variants of each."""
    theirs = [f"method {i}" for i in range(len(OTHERS))]
    for names in (theirs, [*METHODS.names(), *theirs], ["er", "er", "er", *theirs[:2]], ["x"] * 12, ["er"] * 12):
        series = [(name, names[:i].count(name)) for i, name in enumerate(names)]
        looks = styles(series)
        assert len(set(looks)) == len(looks), names
        assert {line for _, line in looks} <= set(LINES)
    assert len({colour for colour, _ in styles([(name, 0) for name in theirs])}) == len(theirs)
    many = styles([(f"method {i}", 0) for i in range(len(OTHERS) * len(LINES) * len(SHADES))])
    assert len(set(many)) == len(many)


def test_ours_look_the_same_whoever_stands_beside_them():
    ours = [name for name in METHODS.names() if METHODS.ships(name)]
    beside = styles([*((f"method {i}", 0) for i in range(9)), *((name, 0) for name in ours)])[9:]
    assert beside == [style(name) for name in ours]


@pytest.mark.parametrize("said", [("red", "-"), ("#0072B2", "dotted"), "#0072B2", ("#0072B2", "-"), 3, ("#0072B2",)])
def test_a_look_that_cannot_be_drawn_or_is_taken_is_replaced(said):
    METHODS.add("mine")(type("Mine", (Method,), {"style": said}))
    try:
        (er, mine) = styles([("er", 0), ("mine", 0)])
        assert er == style("er")
        assert mine[0] in OTHERS
        assert style("mine")[1] in LINES
    finally:
        METHODS.remove("mine")


def test_class_orders_that_vary_with_the_seed_are_one_series():
    runs = [fake(method=m, seed=s, class_order=42 + s % 2) for m in ("er", "tfcsr") for s in range(4)]
    (group,) = grouped(runs)
    assert [(one.label, sorted(one.by_seed)) for one in group.series] == [("er", [0, 1, 2, 3]), ("tfcsr", [0, 1, 2, 3])]
    for one in group.series:
        assert one.orders == {0: 42, 1: 43, 2: 42, 3: 43}
        assert one.command is not None
        assert "--class-order" not in one.command  # each seed gives its own
        for run in one.runs:
            seed = run.spec["seed"]
            options = parse(shlex.split(f"{one.command} --class-order {one.orders[seed]} --seed {seed}")[1:])
            del options["command"]
            assert RunSpec.from_dict(spec_fields(options)).key() == RunSpec.from_dict(run.spec).key()


def test_class_orders_that_share_a_seed_stand_apart():
    runs = [fake(method="er", seed=s, class_order=o) for o in (1, 2) for s in (0, 1)]
    assert sorted(labels(*runs)) == ["er, class_order 1", "er, class_order 2"]
    (group,) = grouped([fake(method="er", seed=0, class_order=7)])
    assert group.series[0].orders == {}
