import re
import shutil

import pytest

import tfcsr
from tests.conftest import make_spec
from tests.reporting.conftest import change, overview
from tfcsr.cli import main
from tfcsr.experiments.reading import Results
from tfcsr.experiments.statistics import estimate
from tfcsr.reporting.figures import FIGURES, FORMATS, figure, plot
from tfcsr.reporting.series import grouped
from tfcsr.reporting.styles import ALL_MARKERS, LINES, marker, style


@pytest.fixture(scope="module")
def results():
    return [tfcsr.run(make_spec(method=m, seed=s, epochs=3)) for m in ("er", "tfcsr", "finetune") for s in (0, 1)]


def test_learning_curves_show_each_methods_mean(results):
    axes = overview(results).axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"er", "tfcsr", "finetune"}
    for method, line in lines.items():
        runs = [r.accuracy_after_task for r in results if r.spec["method"] == method]
        assert list(line.get_xdata()) == [1, 2, 3]
        assert list(line.get_ydata()) == [estimate(values).mean for values in zip(*runs, strict=True)]
    assert axes.get_xlabel() == "tasks learned"
    assert "accuracy" in axes.get_ylabel()
    assert "2 seeds" in axes.get_title()


def test_the_recall_timeline_shows_every_probe(results):
    axes = overview(results).axes[1]
    run = next(r for r in results if r.spec["method"] == "tfcsr")
    points = {
        (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines() if line.get_marker() in ("o", "x")
    }
    assert points == {((p["task"] - 1) * 3 + p["epoch"], p["recall"]) for p in run.probes}


def test_without_tfcsr_there_is_no_timeline(results):
    assert len(overview([r for r in results if r.spec["method"] == "er"]).axes) == 1


def test_every_built_in_method_has_a_colour():
    looks = [style(name) for name in tfcsr.METHODS.names() if tfcsr.METHODS.ships(name)]
    assert len({colour for colour, _ in looks}) == len(looks)


def test_every_built_in_method_has_a_marker_of_its_own():
    ours = [name for name in tfcsr.METHODS.names() if tfcsr.METHODS.ships(name)]
    assert len({marker(name) for name in ours}) == min(len(ours), len(ALL_MARKERS))
    assert len({marker("er", variant) for variant in range(4)}) == 4
    assert marker("somebody's") == marker("somebody's")


def test_a_methods_marker_is_the_same_in_every_figure(grid):
    for name in ("final", "cost"):
        (group,) = _groups(grid)
        found = {marks for axes in figure(name, group).axes for marks in _marks(axes, style("joint")[0])}
        assert found == {marker("joint")}, name


def _groups(folder):
    results = Results(folder)
    results.look()
    return grouped(results.runs)


def _marks(axes, colour):
    """Of the lines of this colour that have a large marker."""
    return {
        line.get_marker()
        for line in axes.get_lines()
        if line.get_color() == colour and line.get_marker() not in ("None", None, ".", "|", "_", 2, 3)
    }


def test_every_line_is_known_to_the_page():
    assert {style(name)[1] for name in (*tfcsr.METHODS.names(), "somebody's", "else's")} <= set(LINES)


STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_a_folder(grid, tmp_path, name):
    out = plot(grid, name, out=tmp_path / "new folder" / "picture.svg")
    text = out.read_text()
    assert "<text" in text  # and not paths: a paper's text can be searched
    assert "tfcsr" in text
    assert plot(grid, name, out=tmp_path / "again.svg").read_bytes() == out.read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["picture.svg"]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format(copy, kind, capsys):
    main(["plot", str(copy), "--format", kind])
    assert capsys.readouterr().out == f"{copy / 'overview'}.{kind}\n"
    assert (copy / f"overview.{kind}").read_bytes().startswith(STARTS[kind])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--figure", "nope"], "unknown figure 'nope': use one of overview"),
        (["--out", "x.gif"], "unknown format 'gif'"),
        (["--format", "exe"], "unknown format 'exe'"),
        (["--benchmark", "nope"], "choose one of them with --benchmark"),
        (["--out", "/dev/null/x.png"], "cannot write"),
        (
            ["--methods", "er", "nope"],
            "no complete run on tiny has method nope: use one or more of er, finetune, joint",
        ),
        (["--seeds", "0,7"], "no complete run on tiny has seed 7: use one or more of 0, 1"),
        (["--seeds", "x"], "seed 'x' is not a whole number"),
        (["--methods", ","], "no method is chosen: use one or more of er"),
        (["--seeds", ""], "no seed is chosen: use one or more of 0, 1"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(copy, capsys, arguments, said):
    before = sorted(copy.rglob("*"))
    with pytest.raises(SystemExit) as caught:
        main(["plot", str(copy), *arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert sorted(copy.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "methods", "seeds"),
    [
        (["--methods", "er", "tfcsr"], {"er", "tfcsr"}, 2),
        (["--methods", "er,tfcsr", "--seeds", "1"], {"er", "tfcsr"}, 1),
        (["--methods", "finetune"], {"finetune"}, 2),
        (["--seeds", "0,1"], {"er", "tfcsr", "finetune", "joint"}, 2),
    ],
)
def test_methods_and_seeds_can_be_chosen(copy, tmp_path, arguments, methods, seeds):
    main(["plot", str(copy), "--figure", "curves", "--out", str(tmp_path / "x.svg"), *arguments])
    text = (tmp_path / "x.svg").read_text()
    assert {name for name in ("er", "tfcsr", "finetune", "joint") if re.search(rf">{name}[<,]", text)} == methods
    assert f"mean of {seeds} seed" in text


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_of_one_run(grid, tmp_path, name):
    assert plot(grid, name, methods=["tfcsr"], seeds=[1], out=tmp_path / "x.svg").exists()


def test_a_chosen_method_without_the_chosen_seeds_is_said(copy, capsys):
    for run in copy.glob("tfcsr-seed1-*"):
        shutil.rmtree(run)
    with pytest.raises(SystemExit) as caught:
        main(["plot", str(copy), "--methods", "er", "tfcsr", "--seeds", "1"])
    assert caught.value.code == 2
    assert "has seed of tfcsr 1: use one or more of 0" in capsys.readouterr().err
    main(["plot", str(copy), "--seeds", "1"])  # nobody asked for it by name


def test_a_folder_with_nothing_complete_or_no_probe(copy, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["plot", str(tmp_path)])
    assert "holds no complete run" in capsys.readouterr().err
    for run in copy.glob("tfcsr-*"):
        (run / "result.json").unlink()
    with pytest.raises(SystemExit):
        main(["plot", str(copy), "--figure", "timeline"])
    assert "no timeline to draw" in capsys.readouterr().err


def test_mixtures_are_drawn_series_by_series(made_up, tmp_path):
    for name in FIGURES:
        text = plot(made_up(75), name, out=tmp_path / "x.svg").read_text()
        if name in ("curves", "final"):
            assert "tfcsr, buffer_capacity 500" in text


def test_classes_have_their_names(copy, tmp_path):
    names = ["t-shirt", "$x^2$", "tr\u202eouser", "y" * 100, "鞋", "bag"]
    for file in copy.glob("*/result.json"):
        change(file, class_names=names)
    text = plot(copy, "retention", out=tmp_path / "x.svg").read_text()
    for name in ("t-shirt", "$x^2$", r"tr\u202eouser", "y" * 23 + "…", "4", "bag"):  # the font has no such letter
        assert f">{name}</text>" in text, name
