"""The reproduction's figures and page: right series, labels and axes, and the same files from the same results."""

import re
from pathlib import Path

import pytest

from tests.paper.test_reproduction import invented, study_of, tiny
from tfcsr.cli import main
from tfcsr.paper.audit import audit
from tfcsr.paper.published import PUBLISHED, TARGETS
from tfcsr.paper.reproduction import open_study
from tfcsr.reporting.reproduction import PAGE, claim_lines, draw, page_text, summary_lines, write_pages
from tfcsr.reporting.studies import plan_lines

COMMITTED = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return tiny(["all"], tmp_path_factory.mktemp("reproduction"), seeds=2)[0]


def published_study():
    arms = dict.fromkeys(row.arm for target in TARGETS.values() for row in (*target.rows, *target.more))
    finals = {arm: 10.0 + i / 8 for i, arm in enumerate(arms)}
    return study_of(*(invented(arm, seed, finals[arm] + seed) for arm in arms for seed in range(3)), seeds=3)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind == "curves"])
def test_curves_as_in_the_paper(name):
    target = TARGETS[name]
    (axes,) = draw(published_study(), target).axes
    labels = [line.get_label() for line in axes.get_lines()]
    for row in target.rows:
        assert f"{row.label} (n 3)" in labels
    solid = [line for line in axes.get_lines() if line.get_linestyle() == "-"]
    dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert len(solid) == len(dashed) == len(target.rows)
    for row, ours, published in zip(target.rows, solid, dashed, strict=True):
        assert tuple(published.get_ydata()) == PUBLISHED[row.published].curve
        assert ours.get_color() == published.get_color()
    assert len({line.get_color() for line in solid}) == len(solid)
    assert len(axes.collections) == len({tuple(line.get_ydata()) for line in solid})  # a band each
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] <= 102
    assert axes.get_xlabel() == "Number of tasks learned"
    assert axes.get_xscale() == "linear"
    assert "published (one run)" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_capacities_have_a_log_axis():
    (axes,) = draw(published_study(), TARGETS["fig3"]).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "500", "1000", "2000"]
    dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert [list(line.get_ydata()) for line in dashed] == [[8.51, 9.31, 7.40, 21.37], [8.55, 9.48, 13.17, 19.72]]


def test_tables_have_no_picture():
    assert all(draw(published_study(), TARGETS[name]) is None for name in ("table1", "table2", "table3", "table-a1"))


def test_the_page_shows_every_target_and_question(study, tmp_path):
    pages = write_pages(study, tmp_path)
    text = (tmp_path / PAGE).read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == [*(target.title for target in TARGETS.values()), "Audit", "How it was made"]
    assert len(re.findall(r"^### \d\. ", text, re.MULTILINE)) == 6
    assert text.count("Not enough runs yet") == 1  # two seeds have no interval, which one question asks for
    pictures = set(re.findall(r"\]\((.*?)\)", text))
    assert pictures == {page.name for page in pages if page.suffix == ".svg"}
    assert all((tmp_path / picture).with_suffix(".png").stat().st_size > 5000 for picture in pictures)
    assert "In 4 of 4 pairs of runs" in text


def test_the_same_results_give_the_same_files(study, tmp_path):
    for folder in ("one", "two"):
        write_pages(study, tmp_path / folder)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 2 * 8 + 2
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_the_main_table():
    lines = summary_lines(published_study())
    assert len(lines) == 2 + 5 + 7
    er = next(line for line in lines if "| Split CIFAR-100 | ER |" in line)
    assert re.search(r"\| 7\.40 \| \d\d\.\d\d ± 2\.48 \(3\) \| consistent \|", er)


def test_a_page_without_a_single_run(tmp_path):
    write_pages(open_study(["fig1"], out=tmp_path, data="tiny"), tmp_path)  # neither ours nor published: empty axes
    assert (tmp_path / "fig1.png").exists()
    text = page_text(study_of(), ["fig2", "table1", "audit"])
    assert "open: no runs" in text
    assert "nan" not in text


def test_the_plan_says_what_and_how_long(tmp_path):
    lines = list(plan_lines(open_study(["fig-c1"], seeds=2, out=tmp_path, data="tiny"), None, "cpu", 1))
    assert lines[:3] == [
        "cifar/spaced/augmented seed 0",
        "cifar/tfcsr-1000/augmented seed 0",
        "cifar/er-1000/plain seed 0",
    ]
    assert lines[-2] == "6 runs to do, 0 of 6 known"
    assert re.fullmatch(r"about .*\d.*, judged by a few steps here", lines[-1])
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    common = ["reproduce", "table3", "--data", "tiny", "--seeds", "1", "--out", str(out), "--device", "cpu"]
    main([*common, "--dry-run"])
    assert "3 runs to do" in capsys.readouterr().out
    assert not out.exists()
    main([*common, "--workers", "1"])
    said = capsys.readouterr().out
    assert str(out / PAGE) in said.replace("\n", "")
    page = (out / PAGE).read_text()
    assert "`tfcsr reproduce table3 --seeds 1 --data tiny --device cpu --workers 1`" in page
    assert str(tmp_path) not in page
    (out / PAGE).unlink()
    main([*common, "--no-run"])
    assert (out / PAGE).read_text() == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig9"], "unknown target 'fig9'"),
        (["fig1", "--data", "nope"], "unknown data 'nope'"),
        (["fig1", "--seeds", "x"], "seeds 'x' is not a whole number"),
        (["fig1", "--seeds", "99999999999"], "seeds 99999999999 is impossible"),
        (["fig1", "--seeds=-4"], "seeds -4 is impossible"),
        (["fig1", "--workers=-3", "--data", "tiny"], "workers -3 is below 0"),
        (["fig1", "--workers=-3", "--data", "tiny", "--dry-run"], "workers -3 is below 0"),
        (["fig1", "--data", "tiny", "--benchmark", "split-mnist"], "none of these runs is on it, but on tiny"),
        (["fig1", "--benchmark", "nope"], "unknown benchmark 'nope'"),
        (["fig1", "--device", "tpu"], "unknown device 'tpu'"),
        (["fig1", "--also", "nowhere"], "also nowhere: there is nothing"),
        (["fig1", "--data-dir", "/nowhere"], "mnist"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_readme_quotes_the_committed_results():
    study = open_study(["all"], out=COMMITTED)
    readme = " ".join((COMMITTED.parents[1] / "README.md").read_text().split())
    for line in summary_lines(study):
        assert line in readme
    for line in claim_lines(study):
        assert line.removeprefix("- ") in readme
    said = " ".join(sentence for finding in audit(study) for sentence in finding.said)
    for number in (r"[+]\d+\.\d\d ± \d+\.\d\d points \(paired", r"ER ends at \d+\.\d\d ± \d+\.\d\d %"):
        assert re.search(number, said)[0].removesuffix(" (paired") in readme
    assert re.search(r"need (\d+:\d\d)\.", (COMMITTED / PAGE).read_text())[1] + " a seed" in readme


def test_the_committed_results_give_the_committed_page(tmp_path):
    """Without running anything; and every picture it shows is there."""
    before = (COMMITTED / PAGE).read_text()
    main(["reproduce", "all", "--no-run", "--also", str(COMMITTED / "results.json"), "--out", str(tmp_path)])
    assert (tmp_path / PAGE).read_text() == before
    for picture in re.findall(r"\]\((.*?)\)", before):
        assert (COMMITTED / picture).is_file()
    assert (COMMITTED / "results.json").stat().st_size < 4e6
