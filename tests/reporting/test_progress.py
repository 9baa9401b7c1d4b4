import io
import itertools
import re

from rich.console import Console

import tfcsr
from tests.conftest import make_spec
from tfcsr.errors import TfcsrError
from tfcsr.reporting.progress import ComparisonDisplay, RunDisplay


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=120, color_system=None), text


def test_a_terminal_shows_task_epoch_speed_time_left_and_recall(monkeypatch):
    screen, text = console(terminal=True)
    spec = make_spec(method="tfcsr", epochs=3)
    clock = itertools.count(step=0.25)
    monkeypatch.setattr("tfcsr.reporting.progress.time.monotonic", lambda: next(clock))
    with RunDisplay(spec, screen) as display:
        tfcsr.run(spec, [display, lambda event: display.progress.refresh()])
    shown = text.getvalue()
    assert re.search(r"task 2/3 epoch 2/3 · \d+ steps/s · \d+:\d\d left · recall \d+\.\d %", shown)


def test_without_a_terminal_there_is_a_line_per_task():
    screen, text = console(terminal=False)
    spec = make_spec(method="er", epochs=1)
    with RunDisplay(spec, screen) as display:
        tfcsr.run(spec, [display])
    lines = text.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("protocol default")
    assert re.fullmatch(r"task 3/3: \d+\.\d\d % over all classes seen, 1 epochs, 0:0\d", lines[3])


def test_a_collapse_is_said_at_once():
    screen, text = console(terminal=False)
    display = RunDisplay(make_spec(), screen)
    display({"event": "collapsed", "task": 2, "time": 0.0})
    assert "died in task 2" in text.getvalue()


def test_a_grid_shows_the_whole_and_each_run():
    screen, text = console(terminal=True)
    with ComparisonDisplay(4, screen) as display:

        def watcher(spec, news):
            display(spec, news)
            display.progress.refresh()

        tfcsr.compare(benchmark="tiny", methods=["er", "mgp"], seeds=2, epochs=2, device="cpu", watcher=watcher)
    shown = text.getvalue()
    assert re.search(r"all runs .* 2/4 · \d+:\d\d left", shown)
    assert re.search(r"mgp seed 1 .* task 1/3 epoch 1/6", shown)


def test_that_memory_ended_is_said():
    screen, text = console(terminal=False)
    ComparisonDisplay(2, screen)(make_spec(method="er"), {"event": "out_of_memory", "at_once": 3, "time": 0.0})
    assert "er seed 0: no memory left beside the others; it waits, 3 at once go on" in text.getvalue()


def test_a_failed_run_of_a_grid_is_said():
    screen, text = console(terminal=False)
    display = ComparisonDisplay(2, screen)
    display(make_spec(method="er"), TfcsrError("[bold]no room[/bold]"))
    assert "1/2 er seed 0: failed: [bold]no room[/bold]" in text.getvalue()
