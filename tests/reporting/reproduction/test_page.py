"""The page, and what a terminal shows: all that was asked for, and the same files from the same results."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.paper.test_reproduction import study_of, tiny
from tests.reporting.reproduction.test_figures import published_study
from tfcsr.cli import main
from tfcsr.paper.audit import audit
from tfcsr.paper.published import TARGETS
from tfcsr.paper.reproduction import Reproduction, open_study
from tfcsr.reporting.reproduction.page import PAGE, claim_lines, page_text, summary_lines, write_pages
from tfcsr.reporting.reproduction.terminal import tables
from tfcsr.reporting.studies import plan_lines

COMMITTED = Path(__file__).parents[3] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return tiny(["all"], tmp_path_factory.mktemp("reproduction"), seeds=2)[0]


@pytest.fixture(scope="module")
def written(study, tmp_path_factory):
    """Its pages, and where they are."""
    folder = tmp_path_factory.mktemp("pages")
    return write_pages(study, folder), folder


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
