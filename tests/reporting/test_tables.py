"""Whatever the width: no number is cut, and nothing is wider than the terminal."""

import html.parser
import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.experiments.test_compare import result
from tfcsr.experiments.compare import Comparison, MethodSummary
from tfcsr.experiments.statistics import estimate
from tfcsr.reporting.interactive import ShownComparison
from tfcsr.reporting.tables import (
    SHORT_NAME,
    Column,
    FittingTable,
    as_text,
    comparison_notes,
    comparison_table,
    fit,
    run_summary,
    run_table,
)

METHODS = ("tfcsr-distill", "tfcsr-spaced", "er", "er-ace", "finetune")


def printed(table: FittingTable, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(table)
    return text.getvalue().splitlines()


def numbers(lines: list[str]) -> list[str]:
    return re.findall(r"[-+±]?\d+(?:\.\d+)?", " ".join(lines))


def summary(method: str, n: int, shared: int | None = None) -> MethodSummary:
    values = [61.25 + 7.5 * i for i in range(n)]
    return MethodSummary(
        method=method,
        n=n,
        collapsed=0,
        failed=0,
        final_accuracy=estimate(values),
        difference=None if method == "er" else estimate([v - 70.0 for v in values[:shared]]),
        forgetting=estimate(values),
        replay_batches=940,
        memory_checks=44,
        seconds=118.2,
        optimizer_steps=9400,
        samples_seen=120000,
    )


def comparison(n: int = 5) -> Comparison:
    return Comparison("split-digits", "er", [summary(method, n) for method in METHODS], [], {})


def matrix(tasks: int):
    rows = [[100.0 - j - i / 10 if j <= i else 0.0 for j in range(tasks)] for i in range(tasks)]
    spec = {"method": "tfcsr-distill", "benchmark": "split-cifar100", "seed": 0}
    return result(
        "er",
        0,
        90.0,
        spec=spec,
        accuracy_matrix=rows,
        accuracy_after_task=[100.0 - i / 100 for i in range(tasks)],
        epochs_per_task=[20] * tasks,
    )


@pytest.mark.parametrize("width", [25, 40, 60, 79, 80, 81, 100, 120, 200])
@pytest.mark.parametrize("tasks", [1, 5, 10, 20])
def test_every_accuracy_of_a_run_is_whole(tasks, width):
    found = matrix(tasks)
    lines = printed(run_table(found), width)
    assert max(map(cell_len, lines)) <= width
    assert "…" not in "".join(lines)
    shown = numbers([line for line in lines if re.match(r" *\d+ ", line)])
    for i, row in enumerate(found.accuracy_matrix):
        assert f"{found.accuracy_after_task[i]:.2f}" in shown
        for value in row[: i + 1]:
            assert f"{value:.1f}" in shown
    assert shown.count("20") >= tasks


def test_ten_tasks_are_one_table_at_80_columns_and_two_at_60():
    for width, blocks in ((80, 1), (60, 2)):
        lines = printed(run_table(matrix(10)), width)
        heads = [line for line in lines if line.startswith("after ")]
        assert len(heads) == blocks
        assert " ".join(heads).split()[-1] == "all"
    assert "after task  epochs  task 1" in "\n".join(printed(run_table(matrix(10)), 200))


@pytest.mark.parametrize("width", [25, 40, 60, 72, 80, 88, 100, 140])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_comparison_keeps_what_matters_most(width, n):
    lines = printed(comparison_table(comparison(n)), width)
    text = "\n".join(lines)
    assert max(map(cell_len, lines)) <= width
    for row in comparison(n).methods:
        for value in (row.final_accuracy, row.difference):
            if value is not None:
                half = "" if value.half_width is None else f" ±{value.half_width:.2f}"
                assert f"{value.mean:.2f}{half}" in text
        assert row.method in text or width < 40
    words = " ".join(text.split())  # the note may wrap
    left_out = re.search(r"no room for: (.*)", words)
    for name, short in {
        "forgetting": "forgot",
        "steps": "",
        "samples": "",
        "replays": "",
        "checks": "",
        "seconds": "s",
    }.items():
        assert (left_out is not None and name in left_out[1].split(", ")) or {name, short} & set(words.split())


def test_the_least_important_columns_go_first():
    columns = comparison_table(comparison()).columns
    before: list[str] = []
    for width in range(140, 20, -1):
        left_out = fit(columns, width)[2]
        assert left_out[: len(before)] == before
        before = left_out
    assert before == ["seconds", "checks", "samples", "replays", "forgetting", "steps"]


def test_forgetting_is_written_out_where_it_fits():
    wide, narrow = (printed(comparison_table(comparison()), width) for width in (100, 80))
    assert "forgetting" in wide[2]
    assert " forgot " in narrow[2]
    assert "forgetting" in printed(comparison_table(comparison()), 60)[3]


@pytest.mark.parametrize("n", [1, 2])
def test_few_seeds_have_no_interval_and_that_is_said_once(n):
    text = "\n".join(printed(comparison_table(comparison(n)), 100))
    assert "±" not in text
    assert "interval" not in text.splitlines()[0]
    assert text.count(f"n {n}, no interval") == text.count("no interval") == 1


def test_where_only_some_have_few_it_is_said_of_these():
    rows = [summary("er", 3), summary("si", 2), summary("mgp", 3, shared=2)]
    lines = printed(comparison_table(Comparison("tiny", "er", rows, [], {})), 100)
    assert "± 95 % interval" in lines[0]
    assert [line for line in lines if "no interval" in line] == [
        "si: n 2, no interval",
        "mgp vs er: n 2, no interval",
    ]


def test_one_is_not_many():
    once = result("er", 0, 90.0, optimizer_steps=1, replay_batches=1, memory_checks=1, buffer_bytes=1)
    assert "1 step, 1 replay batch, 1 memory check," in run_summary(once)[1]
    row = [MethodSummary(**(vars(summary("er", 1)) | {"collapsed": 1}))]
    (note,) = comparison_notes(Comparison("tiny", "er", row, [], {}))
    assert note.startswith("1 of 1 run of er collapsed")


@pytest.mark.parametrize("width", [60, 80])
def test_a_long_name_is_cut_before_any_number_goes_elsewhere(width):
    names = Column("class", ["short", "a name " * 20], leading=True, text=True)
    columns = [names, *(Column(title, ["1.0", "100.0"]) for title in ("kept", "recall %", "best %"))]
    ((block,), _, left_out) = fit([*columns, Column("s", ["7", "8"], rank=1)], width)
    assert [column.title for column in block] == ["class", "kept", "recall %", "best %", "s"]
    assert left_out == []
    assert block[0].width >= SHORT_NAME
    assert width - 2 <= sum(column.width for column in block) + 4 <= width  # a blank at its end goes, too


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        assert set(dict(attributes)) <= {"style"}
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


HOSTILE = "<script>alert(1)</script> & \"x\" 'y' \x1b[31m"


def shown(**changes) -> ShownComparison:
    rows = [replace(summary("er", 3), **changes), replace(summary("mgp", 3), collapsed=1)]
    results = [result("er", seed, 90.0, spec={"method": "er", "seed": seed, "class_order": 42}) for seed in range(3)]
    return ShownComparison("tiny", "er", rows, results, {"er-seed7-abc": f"it died {HOSTILE}"})


def test_a_comparison_shows_itself_as_the_table_of_the_command_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    found = shown()
    text = repr(found)
    assert text == str(found) == as_text(comparison_table(found), comparison_notes(found))
    lines = text.splitlines()
    assert lines[: len(lines) - 3] == [line.rstrip() for line in printed(comparison_table(found), 120)]
    assert "1 of 3 runs of mgp collapsed" in lines[-3]
    assert lines[-2].startswith("er-seed7-abc failed: it died")
    assert "\x1b" not in text
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(cell_len, repr(found).splitlines()[:-3])) <= 60


def test_a_notebook_gets_all_columns_and_nothing_that_acts():
    found = shown(method=f"er {HOSTILE}")
    tags = Tags()
    text = found._repr_html_()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    assert set(tags.tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert "\x1b" not in text
    assert len(text) < 6000
    table = comparison_table(found)
    wanted = [column.title for column in table.columns] + [
        cell for row in zip(*(c.cells for c in table.columns), strict=True) for cell in row
    ]
    assert [text for text in tags.texts if text in wanted] == [text for text in wanted if text]
    assert tags.texts[0] == table.title
    assert tags.texts[-3:] == comparison_notes(found)


def test_a_result_says_what_one_wants_to_know_first():
    spec = {"method": "er", "benchmark": "tiny\x1b", "seed": 3}
    values = {"spec": spec, "optimizer_steps": 1, "forgetting": None}
    assert repr(result("er", 3, 91.237, **values)) == (
        r"<Result of er on tiny\x1b, seed 3: final accuracy 91.24 %, 1 step, 1.5 s>"
    )
    told = repr(result("er", 3, 91.237, spec=spec | {"out": "here/er"}, collapsed=2, optimizer_steps=1234))
    assert told.endswith("91.24 %, forgetting 4.00 points, collapsed in task 2, 1,234 steps, 1.5 s, kept in here/er>")


cells = st.lists(st.just("") | st.integers(0, 10**9).map(str), min_size=2, max_size=2)
column = st.builds(Column, st.text("abc", min_size=1, max_size=40), cells, rank=st.none() | st.integers(1, 9))


@given(st.lists(column, min_size=1, max_size=12), st.integers(20, 120), st.text("xyz語", min_size=1, max_size=30))
def test_whatever_the_columns_are(columns, width, name):
    """Each is shown once and whole, or said to be left out; names give way before a line becomes too long."""
    names = Column("method", [name, "er"], leading=True, text=True)
    blocks, gap, left_out = fit([names, *columns], width)
    shown = [column for block in blocks for column in block[1:]]
    assert all(sum(c.width for c in block) + gap * (len(block) - 1) <= width for block in blocks)
    assert len(shown) + len(left_out) == len(columns)
    assert all(any(column.cells == other.cells for other in columns) for column in shown)
    assert all(column.rank is None for column in shown) or len(blocks) == 1
    lines = printed(FittingTable("title", [names, *columns]), width)
    assert max(map(cell_len, lines)) <= width
    together = "\n".join(lines)
    assert all(cell in together for column in shown for cell in column.cells)
