import subprocess
import sys

import pytest
from tests.conftest import make_spec

import tfcsr
from tfcsr.experiments.statistics import estimate
from tfcsr.reporting.figures import STYLES, comparison_figure


@pytest.fixture(scope="module")
def results():
    return [tfcsr.run(make_spec(method=m, seed=s, epochs=3)) for m in ("er", "tfcsr", "finetune") for s in (0, 1)]


def test_learning_curves_show_each_methods_mean(results):
    axes = comparison_figure(results).axes[0]
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
    axes = comparison_figure(results).axes[1]
    run = next(r for r in results if r.spec["method"] == "tfcsr")
    points = {
        (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines() if line.get_marker() in ("o", "x")
    }
    assert points == {((p["task"] - 1) * 3 + p["epoch"], p["recall"]) for p in run.probes}


def test_without_tfcsr_there_is_no_timeline(results):
    assert len(comparison_figure([r for r in results if r.spec["method"] == "er"]).axes) == 1


def test_every_built_in_method_has_a_colour():
    built_in = {name for name in tfcsr.METHODS.names() if tfcsr.METHODS.is_built_in(name)}
    assert built_in == set(STYLES)
    assert len({colour for colour, _ in STYLES.values()}) == len(STYLES)


def test_drawn_from_a_folder(tmp_path):
    tfcsr.compare(benchmark="tiny", methods=["er"], seeds=1, epochs=1, device="cpu", out=tmp_path / "grid")
    picture = tmp_path / "picture.png"
    arguments = [sys.executable, "-m", "tfcsr.reporting.figures", str(tmp_path / "grid"), str(picture)]
    subprocess.run(arguments, check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
