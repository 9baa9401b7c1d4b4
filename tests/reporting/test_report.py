import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from tests.reporting.conftest import HOSTILE, change, one_run
from tfcsr.cli import main
from tfcsr.reporting.report import LARGEST, SCRIPTS, write_report

SECTIONS = ["summary", "curves", "final", "matrix", "timeline", "retention", "cost", "specs"]


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script" and dict(attrs).get("id") == "data"

    def handle_data(self, data):
        if self._inside:
            self.data += data

    def handle_endtag(self, tag):
        self._inside = False


@pytest.fixture(scope="module")
def report(grid, tmp_path_factory):
    return write_report(grid, tmp_path_factory.mktemp("report") / "new" / "report.html")


@pytest.fixture(scope="module")
def page(report):
    return Page(report.read_text())


def test_everything_stands_in_its_order(page):
    assert [attrs["id"] for tag, attrs in page.tags if tag == "section"] == SECTIONS


def test_it_is_one_small_file_that_asks_for_nothing(report, page):
    assert report.stat().st_size < LARGEST == 6_000_000
    for tag, attrs in page.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attrs.get(name) or "#").startswith(("#", "data:,")), (tag, attrs)
    (policy,) = (attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy
    assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_what_a_reader_without_eyes_or_mouse_needs(page):
    charts = [attrs for tag, attrs in page.tags if attrs.get("class") == "chart"]
    assert len(charts) == 7
    assert all(attrs["role"] == "img" for attrs in charts)
    assert ("html", {"lang": "en"}) in page.tags
    assert next(attrs for tag, attrs in page.tags if tag == "a") == {"class": "skip", "href": "#summary"}
    for tag, attrs in page.tags:
        if tag == "section":
            assert any(other.get("id") == attrs["aria-labelledby"] for _, other in page.tags)


def test_the_document_is_in_it(grid, page):
    view = json.loads(page.data)
    assert len(view["runs"]) == 10
    assert view["live"] is False


def test_without_scripts_there_is_a_table_with_every_series(report, page):
    inside = report.read_text().partition("<noscript>")[2].partition("</noscript>")[0]
    for one in json.loads(page.data)["groups"][0]["series"]:
        assert f"<th>{one['label']}</th>" in inside
        assert f"<td>{one['accuracy'][0]:.2f}" in inside
    assert inside.count("<td>reference</td>") == 1


def test_hostile_names_stay_text(copy):
    folder = copy / "<img src=x onerror=alert(1)>"
    one_run(copy).rename(folder)
    spec = json.loads((folder / "spec.json").read_text()) | {"method": HOSTILE, "benchmark": HOSTILE}
    change(folder / "result.json", spec=spec)
    hostile = copy.rename(copy.parent / "<b>'\"&amp;")
    page = Page(write_report(hostile).read_text())
    assert not [attrs for tag, attrs in page.tags if tag in ("img", "b")]
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3
    assert json.loads(page.data)["folder"] == hostile.name


def test_the_command_says_where_it_is_and_no_more(copy, capsys, tmp_path):
    main(["report", str(copy)])
    assert re.fullmatch(rf"{re.escape(str(copy))}/report.html \(4\.\d MB\)\n", capsys.readouterr().out)
    main(["report", str(copy)])  # over its own
    main(["report", str(one_run(copy)), "--out", str(tmp_path / "one.html")])
    assert "er-seed" not in Page((tmp_path / "one.html").read_text()).data


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent does not exist"),
        (["empty"], "empty holds no run"),
        (["copy", "--out", "empty"], "empty is a folder"),
        (["copy", "--out", "/dev/null/report.html"], "cannot write"),
    ],
)
def test_a_mistake_is_one_line(copy, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as caught:
        main(["report", *arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_full_disk_leaves_the_last_report(copy):
    path = write_report(copy)
    before = path.read_bytes()
    limit = f"ulimit -f 1000; exec {sys.executable} -m tfcsr report {copy}"  # a report takes more
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot write" in done.stderr
    assert path.read_bytes() == before
    assert not list(copy.glob(".*part"))


@pytest.mark.parametrize("command", ["report", "plot"])
def test_without_torch(copy, command):
    check = f"from tfcsr.cli import main; main(['{command}', r'{copy}']); import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_no_script_makes_markup_or_code_of_text():
    source = files("tfcsr.reporting") / "page"
    scripts = [entry for entry in source.iterdir() if entry.name.endswith(".js")]
    assert {entry.name for entry in scripts} == set(SCRIPTS)
    for entry in scripts:
        text = entry.read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, (entry.name, word)
