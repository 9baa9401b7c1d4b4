"""The reproduction's figures and page: right series, labels and axes, and the same files from the same results."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.paper.test_reproduction import invented, study_of, tiny
from tfcsr.cli import main
from tfcsr.paper.audit import audit
from tfcsr.paper.published import ARMS, PUBLISHED, TARGETS
from tfcsr.paper.reproduction import Reproduction, method_of, open_study
from tfcsr.reporting.reproduction import (
    GREY,
    MOST_TOGETHER,
    PAGE,
    claim_lines,
    draw,
    page_text,
    summary_lines,
    tables,
    write_pages,
)
from tfcsr.reporting.studies import plan_lines
from tfcsr.reporting.styles import marker, style

COMMITTED = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return tiny(["all"], tmp_path_factory.mktemp("reproduction"), seeds=2)[0]


@pytest.fixture(scope="module")
def written(study, tmp_path_factory):
    """Its pages, and where they are."""
    folder = tmp_path_factory.mktemp("pages")
    return write_pages(study, folder), folder


def published_study():
    arms = dict.fromkeys(row.arm for target in TARGETS.values() for row in (*target.rows, *target.more))
    finals = {arm: 10.0 + i / 8 for i, arm in enumerate(arms)}
    return study_of(*(invented(arm, seed, finals[arm] + seed) for arm in arms for seed in range(3)), seeds=3)


CURVES = [name for name, target in TARGETS.items() if target.kind == "curves"]


def lines_of(axes, style):
    return [line for line in axes.get_lines() if line.get_linestyle() == style and len(line.get_xdata())]


@pytest.mark.parametrize("name", [name for name in CURVES if len(TARGETS[name].rows) <= MOST_TOGETHER])
def test_curves_as_in_the_paper(name):
    target = TARGETS[name]
    (axes,) = draw(published_study(), target).axes
    labels = [line.get_label() for line in axes.get_lines()]
    for row in target.rows:
        assert f"{row.label} (n 3)" in labels
    solid, dashed = lines_of(axes, "-"), lines_of(axes, "--")
    assert len(solid) == len(dashed) == len(target.rows)
    for row, ours, published in zip(target.rows, solid, dashed, strict=True):
        assert tuple(published.get_ydata()) == PUBLISHED[row.published].curve
        assert ours.get_color() == published.get_color()
        assert ours.get_marker() == marker(method_of(row.arm))
    assert len({line.get_color() for line in solid}) == len(solid)
    assert len(axes.collections) == len(solid)  # a band each
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] <= 102
    assert axes.get_xlabel() == "Number of tasks learned"
    assert axes.get_xscale() == "linear"
    assert "published (one run)" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_many_curves_are_small_panels():
    """Each has a panel where it alone is in colour; the others are in grey behind it."""
    target, figure = TARGETS["fig-a1"], draw(published_study(), TARGETS["fig-a1"])
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title().partition("\n")[0] for axes in panels] == [row.label for row in target.rows]
    for row, axes in zip(target.rows, panels, strict=True):
        solid, (published,) = lines_of(axes, "-"), lines_of(axes, "--")
        (ours,) = [line for line in solid if line.get_color() != GREY]
        assert ours.get_color() == style(method_of(row.arm))[0]
        assert ours.get_marker() == marker(method_of(row.arm))
        assert tuple(published.get_ydata()) == PUBLISHED[row.published].curve
        behind = {tuple(line.get_ydata()) for line in solid if line is not ours}
        assert {PUBLISHED[other.published].curve for other in target.rows} <= behind
        assert axes.get_ylim() == panels[0].get_ylim()
        assert all(line.get_zorder() < ours.get_zorder() for line in solid if line is not ours)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    assert "the other panels" in [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind in ("curves", "capacity")])
def test_what_was_not_augmented_is_hollow(name):
    """Where others in the figure were; and it is said."""
    target, figure = TARGETS[name], draw(published_study(), TARGETS[name])
    plain = {row.label for row in target.rows if ARMS[row.arm].fields["augment"] == "none"}
    mixed = 0 < len(plain) < len(target.rows)
    hollow = {
        line.get_color()
        for axes in figure.axes
        for line in axes.get_lines()
        if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    }
    said = [text.get_text() for axes in figure.axes for text in [*axes.texts, *_legend(axes)]]
    assert bool(hollow) == mixed == any("without augmentation" in text for text in said)
    if mixed and target.kind == "curves":
        assert len(hollow) == len(plain)


def _legend(axes):
    return [] if axes.get_legend() is None else axes.get_legend().get_texts()


def test_the_capacity_that_was_not_augmented_has_a_note():
    (axes,) = draw(published_study(), TARGETS["fig3"]).axes
    (mark,) = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert (mark.get_xdata()[0], mark.get_marker()) == (1000, marker("er"))
    alike = published_study().of("cifar/er-1000/augmented")
    mean = sum(record.final_accuracy for record in alike.values()) / len(alike)
    assert [text.get_text() for text in axes.texts] == [f"without augmentation;\nwith it {mean:.2f} %"]


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind in ("curves", "capacity")])
def test_nothing_is_drawn_beyond_what_an_accuracy_can_be(name):
    arms = dict.fromkeys(row.arm for row in TARGETS[name].rows)
    curve = {f"split-{kind}": [99.0] * tasks for kind, tasks in (("mnist", 5), ("cifar100", 10))}
    wild = study_of(
        *(
            invented(arm, seed, 50.0, accuracy_after_task=[value * (seed != 1) for value in curve[ARMS[arm].benchmark]])
            for arm in arms
            for seed in range(3)
        ),
        seeds=3,
    )
    for axes in draw(wild, TARGETS[name]).axes:
        drawn = [y for part in axes.collections for path in part.get_paths() for _, y in path.vertices]
        assert all(0 <= y <= 100 for y in drawn)


def test_the_capacities_have_a_log_axis():
    (axes,) = draw(published_study(), TARGETS["fig3"]).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "500", "1000", "2000"]
    dashed = lines_of(axes, "--")
    assert [list(line.get_ydata()) for line in dashed] == [[8.51, 9.31, 7.40, 21.37], [8.55, 9.48, 13.17, 19.72]]


def test_tables_have_no_picture():
    assert all(draw(published_study(), TARGETS[name]) is None for name in ("table1", "table2", "table3", "table-a1"))


def test_the_page_shows_every_target_and_question(study, written):
    pages, folder = written
    text = (folder / PAGE).read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == [*(study.title(target) for target in TARGETS.values()), "Audit", "How it was made"]
    assert "Split MNIST, on tiny" not in text
    assert len(re.findall(r"^### \d\. ", text, re.MULTILINE)) == 6
    assert text.count("Not enough runs yet") == 1  # two seeds have no interval, which one question asks for
    pictures = set(re.findall(r"\]\((.*?)\)", text))
    assert pictures == {page.name for page in pages if page.suffix == ".svg"}
    assert all((folder / picture).with_suffix(".png").stat().st_size > 5000 for picture in pictures)
    assert "In 4 of 4 pairs of runs" in text


def test_the_same_results_give_the_same_files(study, written, tmp_path):
    write_pages(study, tmp_path)
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (written[1], tmp_path))
    assert len(one) == 2 * 8 + 2
    assert one.keys() == two.keys()
    for name, data in one.items():
        assert two[name] == data, name


def test_the_main_table():
    lines = summary_lines(published_study())
    assert len(lines) == 2 + 5 + 7
    er = next(line for line in lines if "| Split CIFAR-100 | ER |" in line)
    assert re.search(r"\| 7\.40 \| \d\d\.\d\d ± 2\.48 \(3\) \| consistent \|", er)


def test_a_page_without_a_single_run(tmp_path):
    write_pages(open_study(["fig1"], out=tmp_path, data="tiny"), tmp_path)  # neither ours nor published: empty axes
    assert (tmp_path / "fig1.png").exists()
    study = study_of()
    study.targets = ["fig2", "table1", "audit"]
    text = page_text(study)
    assert "open: no runs" in text
    assert "nan" not in text


def test_only_what_was_asked_for_is_written(study, tmp_path):
    """Also where there are runs for more of it."""
    few = Reproduction(["fig1", "table3"], study.seeds, study.data, study.records)
    pages = write_pages(few, tmp_path)
    assert {page.name for page in pages} == {"fig1.png", "fig1.svg", PAGE}
    assert {path.name for path in tmp_path.iterdir()} == {"fig1.png", "fig1.svg", PAGE, "results.json"}
    headings = re.findall(r"^## (.*)$", (tmp_path / PAGE).read_text(), re.MULTILINE)
    assert [heading.partition(":")[0] for heading in headings] == ["Figure 1", "Table 3", "How it was made"]
    assert [table.title.partition(":")[0] for table in tables(few)] == ["Figure 1", "Table 3"]


def test_a_part_of_the_paper_has_no_table_of_all_of_it():
    whole, part = published_study(), published_study()
    part.targets = ["fig1", "table3"]
    assert "| benchmark | method | published % |" in page_text(whole)
    assert "| benchmark | method | published % |" not in page_text(part)
    assert [table.title for table in tables(whole)] == ["The paper, again"]


@pytest.mark.parametrize("name", TARGETS)
def test_titles_name_the_data_that_was_run(study, name):
    title = study.title(TARGETS[name])
    assert "Split" not in title
    assert title.endswith("on tiny")
    assert published_study().title(TARGETS[name]) == TARGETS[name].title


def test_capacities_are_those_that_were_run(study):
    lines = study.lines(TARGETS["fig3"])
    for row, line in zip(study.rows(TARGETS["fig3"]), lines, strict=False):
        (spec, *_) = [record.run_spec for record in line.runs.values()]
        assert row.label == line.label == f"{row.series}, capacity {spec.buffer_capacity}"
        assert row.x == spec.buffer_capacity


def test_a_terminal_shows_every_number_of_the_table_asked_for(capsys):
    part = published_study()
    part.targets = ["table3", "fig1"]
    console = Console(width=80, record=True)
    for table in tables(part):
        console.print(table)
    said = capsys.readouterr().out
    for name in part.targets:
        for line in part.lines(TARGETS[name]):
            assert f"{line.estimate.mean:.2f}" in said or f"{line.estimate.mean:.1f}" in said
            assert line.label[:20] in said  # names may be cut, numbers never
    assert "consistent" in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_plan_says_what_and_how_long(tmp_path):
    lines = list(plan_lines(open_study(["fig-c1"], seeds=2, out=tmp_path, data="tiny"), None, "cpu", 1))
    assert lines[:3] == [
        "cifar/spaced/augmented seed 0",
        "cifar/tfcsr-1000/augmented seed 0",
        "cifar/er-1000/plain seed 0",
    ]
    assert lines[-2] == "6 runs to do, 0 of 6 known"
    assert re.fullmatch(r"about .*\d.*, judged by a trial of a few seconds here", lines[-1])
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    common = ["reproduce", "table3", "--data", "tiny", "--seeds", "1", "--out", str(out), "--device", "cpu"]
    main([*common, "--dry-run", "--workers", "1"])
    assert "3 runs to do" in capsys.readouterr().out
    assert not out.exists()
    main([*common, "--workers", "1"])
    said = capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {PAGE, "results.json", "runs"}
    assert "Table 3: replay batches, memory checks and accuracy, on tiny" in said
    assert re.search(r"TFC-SR \(Spaced Replay\) +accuracy % +\d", said)
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
    of, inside = re.search(
        r"Of the other (\d+), (\d+) lie in our prediction intervals", " ".join(claim_lines(study))
    ).groups()
    assert f"{of} different final values and counts that could differ, {inside} lie in our prediction" in readme
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
