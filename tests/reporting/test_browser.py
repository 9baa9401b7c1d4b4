"""The page in a real browser: everything drawn, everything operable, no error, and no request to anybody else."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.conftest import start
from tests.reporting.chromium import EXECUTABLE, MISSING, chromium, drawn
from tests.reporting.conftest import HOSTILE, change, one_run
from tests.reporting.test_watch import watch
from tfcsr.files import locked
from tfcsr.reporting.report import write_report
from tfcsr.reporting.styles import LINES, OTHERS

__all__ = ["start", "watch"]  # fixtures

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason=MISSING)

CHARTS = ("curves", "final", "difference", "matrix", "timeline", "retention", "cost")
MARKS = "document.getElementById('chart-timeline').data.filter(t => t.mode === 'markers').map(t => t.x.length)"
TRACES = "(id) => document.getElementById('chart-' + id).data.length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def opened(browser: Any, address: Path | str, width: int = 1200, allowed: str = "", **settings: Any) -> Any:
    """A page that is drawn; `page.wrong` is what goes wrong in it, and whoever else is asked."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **settings)
    page.wrong = wrong = []
    where = address.resolve().as_uri() if isinstance(address, Path) else address

    def requested(request: Any) -> None:
        if not (request.url == where or request.url.startswith(("data:", allowed or "data:"))):
            wrong.append(f"asked for {request.url}")

    page.on("request", requested)
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append("dialog"), dialog.dismiss()))
    drawn(page, where)
    return page


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Any]]:
    """Opens a page; afterwards nothing may have gone wrong in it, and nobody else been asked."""
    pages: list[Any] = []

    def open_page(*given: Any, **settings: Any) -> Any:
        pages.append(opened(browser, *given, **settings))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
    assert [line for page in pages for line in page.wrong] == []


CHOSEN = "[...document.querySelectorAll('select, input')].map(one => one.type === 'checkbox' ? one.checked : one.value)"
CHOOSE = """values => [...document.querySelectorAll('select, input')].forEach((one, i) => {
    const what = one.type === 'checkbox' ? 'checked' : 'value';
    if (one[what] === values[i]) return;
    one[what] = values[i];
    for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true}));
})"""


def shared_page(page: Any) -> Iterator[Any]:
    """A page that several tests share, since drawing it takes seconds: what one has chosen is put back."""
    before = page.evaluate(CHOSEN)
    yield page
    page.mouse.move(0, 0)
    for _ in range(2):  # to choose another benchmark brings other series to choose from
        page.evaluate(CHOOSE, before)
    wrong, page.wrong[:] = list(page.wrong), []  # the next test is not to blame
    assert wrong == []
    assert page.evaluate(CHOSEN) == before


@pytest.fixture(scope="module")
def report(grid, tmp_path_factory) -> Path:
    return write_report(grid, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def report_page(browser, report) -> Iterator[Any]:
    page = opened(browser, report)
    yield page
    page.close()


@pytest.fixture
def page(report_page) -> Iterator[Any]:
    yield from shared_page(report_page)


@pytest.fixture(scope="module")
def page_of_two(browser, grid, made_up, tmp_path_factory) -> Iterator[Any]:
    folder = Path(shutil.copytree(grid, tmp_path_factory.mktemp("two") / "copy"))
    shutil.copytree(made_up(15), folder, dirs_exist_ok=True)
    page = opened(browser, write_report(folder))
    yield page
    page.close()


@pytest.fixture
def two_benchmarks(page_of_two) -> Iterator[Any]:
    yield from shared_page(page_of_two)


def until(page: Any, condition: str) -> None:
    """Asked from outside: the page itself may not evaluate text, and shall not."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def scrolls_sideways(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


def test_every_chart_is_drawn_and_named(page):
    for name in CHARTS:
        chart = page.locator(f"#chart-{name}")
        assert chart.locator("svg.main-svg").first.bounding_box()["height"] > 100, name
        assert chart.locator(".trace, .hm, .heatmaplayer image").count() > 0, name
        assert len(chart.get_attribute("aria-label")) > 20, name
    sections = page.eval_on_selector_all("main section", "all => all.map(one => [one.id, one.offsetTop])")
    assert [name for name, _ in sections] == [
        "summary",
        "curves",
        "final",
        "matrix",
        "timeline",
        "retention",
        "cost",
        "specs",
    ]
    assert [top for _, top in sections] == sorted(top for _, top in sections)
    for name in ("curves", "final", "matrix", "timeline", "retention", "cost", "runs"):
        assert page.locator(f"#table-{name} tbody tr").count() > 0, name


def test_hovering_tells_the_value(page):
    page.locator("#chart-curves .trace .point").last.hover(force=True)
    page.wait_for_selector("#chart-curves .hovertext")
    assert "after task 3" in page.locator("#chart-curves .hovertext").text_content()


def test_a_series_is_switched_off_and_on_by_keyboard(page):
    before = [page.evaluate(TRACES, name) for name in ("curves", "final", "cost")]
    box = page.get_by_label("finetune", exact=True)
    box.focus()
    page.keyboard.press("Space")
    assert not box.is_checked()
    assert [page.evaluate(TRACES, name) for name in ("curves", "final", "cost")] == [
        before[0] - 3,
        before[1] - 1,
        before[2] - 1,
    ]
    page.keyboard.press("Space")
    assert [page.evaluate(TRACES, name) for name in ("curves", "final", "cost")] == before


def test_the_slider_moves_through_the_tasks(page, grid):
    page.select_option("#matrix-series", "finetune")
    rows = "document.getElementById('chart-matrix').data[0].z.filter(row => row.some(v => v !== null)).length"
    assert page.evaluate(rows) == 3
    page.locator("#matrix-task").focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(rows) == 2
    assert page.locator("#matrix-at").inner_text() == "2"
    matrices = [json.loads(f.read_text())["accuracy_matrix"] for f in grid.glob("finetune-*/result.json")]
    mean = sum(matrix[1][0] for matrix in matrices) / 2
    assert page.locator("#matrix-words").inner_text().startswith(f"After task 2: task 1 {mean:.1f} %, task 2 ")
    page.keyboard.press("Home")
    assert page.evaluate(rows) == 1


def test_the_timeline_of_each_run_per_task_and_class(page, grid):
    for seed in (0, 1):
        page.select_option("#timeline-seeds", label=f"seed {seed}")
        probes = json.loads((one_run(grid, "tfcsr", seed) / "result.json").read_text())["probes"]
        passed = sum(probe["passed"] for probe in probes)
        assert page.evaluate(MARKS) == [passed, len(probes) - passed]
        assert f"{len(probes)} probes, {passed} passed" in page.locator("#timeline-words").inner_text()
    heat = "document.getElementById('chart-timeline').data.find(t => t.type === 'heatmap').z.length"
    assert page.evaluate(heat) == 3
    page.select_option("#timeline-part", "per_class")
    assert page.evaluate(heat) == 6


def test_the_timeline_of_all_seeds_and_of_their_mean(page, grid):
    files = [one_run(grid, "tfcsr", seed) / "result.json" for seed in (0, 1)]
    runs = [[probe | {"at": 3 * probe["task"] - 3 + probe["epoch"]} for probe in found] for found in probes_of(files)]
    assert page.locator("#timeline-seeds option").all_inner_texts() == [
        "mean of 2 seeds",
        "all 2 seeds",
        "seed 0",
        "seed 1",
    ]
    points = "document.getElementById('chart-timeline').data.filter(t => t.mode === 'markers')"
    points += ".flatMap(t => t.x.map((x, i) => [x, t.y[i]])).sort((a, b) => a[0] - b[0] || a[1] - b[1])"
    for at, mean in page.evaluate(points):  # of the last probe of each seed in this task
        task = (at - 1) // 3 + 1
        last = [[p["recall"] for p in found if p["task"] == task and p["at"] <= at][-1:] for found in runs]
        known = [recall for one in last for recall in one]
        assert mean == pytest.approx(sum(known) / len(known), abs=0.02)
    assert {at for at, _ in page.evaluate(points)} == {probe["at"] for found in runs for probe in found}
    page.select_option("#timeline-seeds", "all")
    everything = sorted((probe["at"], round(probe["recall"], 2)) for found in runs for probe in found)
    assert [tuple(point) for point in page.evaluate(points)] == everything
    assert f"{len(everything)} probes" in page.locator("#timeline-words").inner_text()
    # From zero or a round number, and the threshold is in words where no probe can be.
    low, high = page.evaluate("document.getElementById('chart-timeline').layout.yaxis.range")
    lowest = min(recall for _, recall in everything)
    assert low <= (0 if lowest < 50 else lowest)
    assert high > 100
    assert "threshold 95 %" in page.locator("#timeline-key").inner_text()
    assert "threshold" not in page.locator("#chart-timeline").text_content()


def probes_of(files: list[Path]) -> list[list[dict[str, Any]]]:
    return [json.loads(file.read_text())["probes"] for file in files]


def test_cost_and_retention_can_be_chosen(page):
    title = "document.getElementById('chart-cost').layout.xaxis.title.text"
    assert page.evaluate(title) == "optimizer steps"
    joint = "document.getElementById('chart-cost').data.filter(t => (t.customdata || [''])[0].includes('joint'))"
    ((steps,),) = page.evaluate(f"{joint}.map(t => t.x)")
    assert steps > 0
    for kind in ("samples_seen", "memory_checks", "seconds", "buffer_bytes", "replay_batches"):
        page.select_option("#cost-kind", kind)
        assert page.evaluate(title)
        # What an upper bound does without costs it nothing: there it is a line, not a point at 0.
        there = page.evaluate(f"{joint}.length")
        line = "(upper bound)" in "".join(page.locator("#chart-cost .annotation").all_text_contents())
        assert (there, line) == ((1, False) if kind in ("samples_seen", "seconds") else (0, True)), kind
    assert page.evaluate(title) == "replay batches"
    page.select_option("#retention-series", "joint")
    assert "joint" in page.locator("#chart-retention").get_attribute("aria-label")


def test_the_summary_is_a_table_with_aligned_numbers(page):
    head = page.locator("#table-summary thead th").all_inner_texts()
    against = "points against er, buffer_capacity 24"
    assert head == ["method", "n", "accuracy %", against, "forgetting", "steps", "replays", "checks"]
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("#table-summary tbody tr").all()]
    said = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert said["er, buffer_capacity 24"][against] == "reference"
    assert said["tfcsr"][against] == "same weights"
    assert int(said["joint"]["steps"]) > 0
    assert int(said["tfcsr"]["checks"]) > 0
    right = (
        "all => all.map(one => Math.round(one.querySelector('.estimate > :first-child').getBoundingClientRect().right))"
    )
    assert len(set(page.eval_on_selector_all("#table-summary tbody td:nth-child(3)", right))) == 1
    assert page.locator("#said").inner_text().count(". ") == 1
    assert "reference" in page.locator("#chart-difference .annotation").all_text_contents()
    title = page.evaluate("document.getElementById('chart-difference').layout.xaxis.title.text")
    assert title.startswith("points against er")


def test_one_series_has_no_cost_to_weigh(visit, copy):
    page = visit(write_report(one_run(copy), copy / "one.html"))
    assert not page.locator("#chart-cost").is_visible()
    assert not page.locator("#cost-kind").is_visible()
    assert "weighed against no other" in page.locator("#no-cost").inner_text()
    assert page.locator("#table-cost tbody tr").count() == 1
    assert page.locator("#timeline-seeds option").all_inner_texts() == ["seed 0"]
    assert "against" not in page.locator("#table-summary thead").inner_text()


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(w * ((c + 0.055) / 1.055) ** 2.4 for w, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("scheme", "ground"), [("light", "#ffffff"), ("dark", "#14171a")])
def test_every_series_and_every_number_in_a_map_can_be_seen(visit, copy, scheme, ground):
    for i, file in enumerate(sorted(copy.glob("*/result.json"))):  # ten methods that are not ours
        change(file, spec=json.loads(file.read_text())["spec"] | {"method": f"method {i}"})
    page = visit(write_report(copy), color_scheme=scheme)
    lines = page.evaluate(
        "document.getElementById('chart-curves').data.filter(t => t.name).map(t => [t.line.color, t.line.dash])"
    )
    assert len({tuple(line) for line in lines}) == len(lines) == 10
    assert [len(set(looks)) for looks in zip(*lines, strict=True)] == [len(OTHERS), len(LINES)]
    for colour, _ in lines:
        assert contrast(colour, ground) >= (3 if scheme == "dark" else 2.2)
    for name in ("matrix", "retention"):
        heat, *texts = page.evaluate(f"document.getElementById('chart-{name}').data")
        cells = [value for row in heat["z"] for value in row if value is not None]
        assert sorted(len(one["x"]) for one in texts) == sorted(len(one["text"]) for one in texts)
        assert sum(len(one["x"]) for one in texts) == len(cells)
        for _, stop in heat["colorscale"]:
            parts = [int(stop[i : i + 2], 16) for i in (1, 3, 5)]
            assert parts[0] <= parts[1] <= parts[2]  # from grey to blue: no yellow shouts
            assert max(contrast(stop, "#000000"), contrast(stop, "#ffffff")) >= 4.5


def test_a_table_that_scrolls_says_so(two_benchmarks):
    page = two_benchmarks
    hint = page.locator("#table-runs").locator("xpath=../following-sibling::*[1]")
    assert hint.inner_text() == "↓ 25 rows: scroll down in the table"
    box = page.locator(".box", has=page.locator("#table-runs"))
    assert "more-below" in box.get_attribute("class")
    page.locator("#table-runs").focus()
    page.keyboard.press("End")
    until(page, "!document.getElementById('table-runs').parentElement.classList.contains('more-below')")
    page.select_option("#group", "tiny")
    summary = page.locator("#table-summary")
    assert summary.get_attribute("tabindex") is None  # all of it is in sight
    assert not summary.locator("xpath=../following-sibling::*[1]").is_visible()


def test_on_a_phone_what_counts_is_in_sight(visit, report):
    page = visit(report, 390)
    for name in ("summary", "runs"):
        place = page.locator(f"#table-{name}")
        place.scroll_into_view_if_needed()
        head = place.locator("thead th")
        accuracy = head.nth([one.replace("\n", " ") for one in head.all_inner_texts()].index("accuracy %"))
        box = accuracy.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 390, name
        first = place.locator("tbody th").first.bounding_box()
        place.evaluate("one => { one.scrollLeft = 400; }")
        assert place.locator("tbody th").first.bounding_box()["x"] == pytest.approx(first["x"], abs=1), name
    assert "scroll sideways" in page.locator("#summary .hint").inner_text()
    assert not scrolls_sideways(page)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (390, "dark"), (1200, "dark")])
def test_light_dark_and_small(visit, report, width, scheme, tmp_path):
    page = visit(report, width, color_scheme=scheme, reduced_motion="reduce")
    assert not scrolls_sideways(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == (scheme == "dark")
    assert page.evaluate("document.getElementById('chart-curves').layout.paper_bgcolor") == (
        "#14171a" if scheme == "dark" else "#ffffff"
    )
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true; }")
    assert not scrolls_sideways(page)
    if width > 1000:
        return
    for name in CHARTS:
        box = page.locator(f"#chart-{name} svg.main-svg").first.bounding_box()
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= width, name


def test_tab_reaches_everything_and_shows_where_it_is(visit, report):
    page = visit(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.type"))
    assert {
        "theme",
        "checkbox",
        "matrix-series",
        "matrix-task",
        "timeline-series",
        "timeline-seeds",
        "timeline-part",
        "cost-kind",
    } <= reached


def test_on_paper_it_is_light_and_unfolded(visit, report, tmp_path):
    page = visit(report, color_scheme="dark")
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 50_000
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("details[open]").count() == 0


def test_hostile_names_stay_text(visit, copy):
    folder = copy / "<img src=x onerror=alert(1)>"
    one_run(copy).rename(folder)
    spec = json.loads((folder / "spec.json").read_text()) | {"method": HOSTILE}
    change(folder / "result.json", spec=spec)
    page = visit(write_report(copy.rename(copy.parent / "<b onclick=alert(3)>x")))
    label = HOSTILE.replace("\u2028", r"\u2028")
    assert page.get_by_label(label, exact=True).count() == 1
    assert page.locator("main img, main script, h1 b").count() == 0
    assert page.locator("h1").inner_text() == "<b onclick=alert(3)>x"
    assert folder.name in page.locator("#table-runs").inner_text()
    page.select_option("#timeline-series", label)
    page.select_option("#timeline-seeds", label="seed 0")
    page.select_option("#matrix-series", label)
    assert label[:10] in "".join(page.locator("#chart-final .ytick").all_text_contents())
    page.locator("#chart-final .trace .point").first.hover(force=True)
    assert page.locator("#chart-final a, #chart-final image").count() == 0


def test_classes_have_their_names(visit, copy):
    names = [HOSTILE, "t-shirt", "t-shirt", "<b>x</b>", "a" * 30 + "1", "a" * 30 + "2"]
    for file in copy.glob("*/result.json"):
        change(file, class_names=names)
    page = visit(write_report(copy))
    ticks = list(filter(None, page.locator("#chart-retention .ytick").all_text_contents()))
    assert {"t-shirt (class 1)", "t-shirt (class 2)", "<b>x</b>"} <= set(ticks)
    assert len(set(ticks)) == 6
    cells = page.locator("#table-retention tbody th").all_text_contents()
    assert {"t-shirt (class 1)", "<b>x</b>", names[4]} <= set(cells)
    page.select_option("#timeline-part", "per_class")
    assert "<b>x</b>" in page.locator("#table-timeline thead").text_content()
    assert "<b>x</b>" in page.locator("#chart-timeline .y2tick").all_text_contents()
    assert page.locator("#chart-retention b, main img, main script").count() == 0


def test_several_benchmarks_are_chosen_between(two_benchmarks):
    page = two_benchmarks
    assert page.locator("#group option").all_inner_texts() == ["split-cifar100", "tiny"]
    assert page.locator("#series input").count() == 13  # finetune has no buffer
    page.select_option("#group", "tiny")
    assert page.locator("#series input").count() == 5
    assert page.evaluate("document.getElementById('chart-matrix').data[0].z.length") == 3


def test_a_run_that_never_probes(visit, copy):
    page = visit(write_report(one_run(copy, "finetune"), copy / "one.html"))
    assert page.locator("#timeline-words").inner_text() == "No run here has probed its buffer."
    assert not page.locator("#chart-timeline").is_visible()
    assert page.locator("#no-difference").is_visible()


def test_the_live_page_follows_its_runs(visit, watch, grid, tmp_path):
    """From nothing to a run that begins, goes on, fails, is resumed and ends; then the server goes and comes back."""
    whole, folder = one_run(grid), tmp_path / "live"
    folder.mkdir()
    told = (whole / "events.jsonl").read_text().splitlines(keepends=True)
    probes = [i for i, line in enumerate(told) if '"probe"' in line]
    process, port = watch(folder)
    address = f"http://127.0.0.1:{port}/"
    page = visit(address, allowed=address)
    assert "waits for the first" in page.locator("#headline").inner_text()

    run = folder / "<i>run"
    run.mkdir()
    shutil.copy(whole / "spec.json", run)
    (run / "events.jsonl").write_text("".join(told[: probes[1]]))
    with locked(run):
        page.wait_for_selector("#progress .run")
        assert "task 1 of 3" in page.locator("#progress .run").inner_text()
        assert page.locator("#progress .run span").first.inner_text() == "<i>run"
        count = f"{MARKS}.reduce((n, length) => n + length, 0)"
        assert page.evaluate(count) == 1
        with (run / "events.jsonl").open("a") as file:
            file.write("".join(told[probes[1] : probes[3]]))
        until(page, f"{count} === 3")
        points = "Math.max(...document.getElementById('chart-curves').data.map(t => t.x.length))"
        end = next(i for i, line in enumerate(told) if '"task_finished"' in line)
        (run / "events.jsonl").write_text("".join(told[: end + 1]))
        until(page, f"{points} === 1")
        failed = {"event": "failed", "time": 1.0, "task": 2, "epoch": 1, "step": 9, "loss": "inf"}
        (run / "events.jsonl").write_text("".join(told[: end + 1]) + json.dumps(failed) + "\n")
    until(page, "document.getElementById('progress').innerText.includes('failed: the loss became inf')")
    (run / "events.jsonl").write_text("".join(told[: end + 2]))
    with locked(run):
        until(page, "document.getElementById('headline').innerText.includes('1 running')")
    shutil.copytree(whole, run, dirs_exist_ok=True)
    until(page, "document.getElementById('headline').innerText === '1 run: 1 complete.'")
    assert page.locator("#progress .run").count() == 0
    assert page.evaluate(points) == 3
    page.select_option("#timeline-part", "per_class")

    assert page.wrong == []
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    page.wait_for_selector("#connection.lost")
    page.wrong.clear()  # that it could not be reached, the browser says too
    shutil.copytree(one_run(grid, "er"), folder / "second")
    watch(folder, "--port", str(port))
    until(page, "document.getElementById('headline').innerText === '2 runs: 2 complete.'")
    assert not page.locator("#connection").is_visible()
    assert page.locator("#timeline-part").input_value() == "per_class"  # what was chosen stays
    page.close()  # before its server
    page.wrong[:] = [line for line in page.wrong if "net::ERR_" not in line]
