import inspect
import io
import itertools
import json
import re

import pytest
from rich.console import Console

import tfcsr
from tests.conftest import make_spec
from tfcsr.engines.worker import SECONDS_BETWEEN_REPORTS, Reporter
from tfcsr.errors import TfcsrError
from tfcsr.experiments import compare, run
from tfcsr.reporting.progress import ComparisonDisplay, LearnDisplay, Position, RunDisplay, heading, settings


def console(terminal: bool, width: int = 120) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=width, color_system=None), text


def lines_of(text: io.StringIO) -> list[str]:
    """What was drawn, line by line, without what steers the terminal."""
    return [
        line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())) if line.strip()
    ]


def quick_run(tasks=5, epochs=20, steps=4):
    """The events of a run whose epochs take a few milliseconds, each with a probe."""
    yield {"event": "run_started", "spec": {}, "epochs": epochs}
    for task in range(1, tasks + 1):
        yield {"event": "task_started", "task": task, "classes": [task]}
        for epoch in range(1, epochs + 1):
            where = {"task": task, "epoch": epoch}
            for step in range(1, steps + 1):
                yield {"event": "step", **where, "epochs": epochs, "step": step, "steps": steps}
            yield {"event": "epoch_finished", **where, "epochs": epochs, "loss": 0.1}
            yield {"event": "probe", **where, "recall": 97.3, "passed": True, "next_epoch": epoch + 1}
        yield {"event": "task_finished", "task": task, "epochs": epochs, "accuracy": 90.0, "row": []}
    yield {"event": "run_finished", "seconds": 1.0}


def test_a_terminal_shows_task_epoch_speed_time_left_and_recall(monkeypatch):
    screen, text = console(terminal=True)
    spec = make_spec(method="tfcsr", epochs=3)
    clock = itertools.count(step=0.25)
    monkeypatch.setattr("tfcsr.reporting.progress.time.monotonic", lambda: next(clock))
    with RunDisplay(spec, screen) as display:
        tfcsr.run(spec, [display, lambda event: display.progress.refresh()])
    shown = text.getvalue()
    assert re.search(r"task 2/3 epoch 2/3 · \d+:\d\d left · recall \d+\.\d % · \d+ steps/s", shown)


def test_without_a_terminal_there_is_a_line_per_task():
    screen, text = console(terminal=False)
    spec = make_spec(method="er", epochs=1)
    with RunDisplay(spec, screen) as display:
        tfcsr.run(spec, [display])
    lines = text.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("er on tiny, seed 0: epochs 1")
    assert re.fullmatch(r"task 3/3: \d+\.\d\d % over all classes seen, 1 epoch, 0:0\d", lines[3])


def test_steps_get_through_however_fast_other_events_come(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tfcsr.engines.worker.time.monotonic", lambda: now[0])
    out = io.StringIO()
    reporter = Reporter(out)
    screen, _ = console(terminal=True)
    display = ComparisonDisplay(1, screen)
    spec = make_spec(method="tfcsr", benchmark="split-digits", epochs=20)
    sent, texts = [], []
    for event in quick_run():
        now[0] += 0.005
        reporter(event)
        for line in out.getvalue().splitlines():
            passed_on = json.loads(line)["event"]
            sent.append(passed_on["event"])
            display(spec, passed_on)
            texts.append(display.progress.tasks[-1].fields["detail"])
        out.seek(0)
        out.truncate()
    # As often as the clock allows, and no more often.
    assert sent.count("step") == pytest.approx(now[0] / SECONDS_BETWEEN_REPORTS, rel=0.1)
    # What is rare is never left out.
    assert (sent.count("task_finished"), sent.count("probe"), sent.count("epoch_finished")) == (5, 100, 100)
    assert {f"task {task}/5 epoch {epoch}/20" for task in range(1, 6) for epoch in range(1, 21)} == set(texts)


def test_the_place_is_known_without_a_single_step():
    position = Position(make_spec(method="tfcsr", benchmark="split-digits", epochs=20))
    seen, shares = [], []
    for event in quick_run():
        if event["event"] != "step":
            position(event)
            seen.append(position.text())
            shares.append(position.share)
    assert len(dict.fromkeys(seen)) == 100
    assert shares == sorted(shares)
    assert (shares[0], shares[-1], position.recall) == (0.0, 1.0, 97.3)
    assert position.text() == "task 5/5 epoch 20/20"


def test_what_was_done_before_a_run_was_resumed_is_no_speed():
    position = Position(make_spec(method="er", benchmark="split-digits", epochs=20))
    position({"event": "run_resumed", "task": 2, "epoch": 10, "epochs": 20})
    assert (position.share, position.before) == (0.3, 0.3)
    position({"event": "epoch_finished", "task": 2, "epoch": 11, "epochs": 20})
    assert (position.share, position.before) == (pytest.approx(0.31), 0.3)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("method", ["er", "tfcsr-distill"])
def test_the_bar_keeps_its_place_beside_the_text(monkeypatch, width, method):
    clock = itertools.count(step=0.25)
    monkeypatch.setattr("tfcsr.reporting.progress.time.monotonic", lambda: next(clock))
    screen, text = console(terminal=True, width=width)
    with RunDisplay(make_spec(method=method, benchmark="split-digits", epochs=20), screen) as display:
        for event in quick_run(epochs=2):
            display(event)
            display.progress.refresh()
    drawn = [line for line in lines_of(text) if line.startswith(f"{display.name} ") and " task" in line]
    assert len(drawn) > 10
    assert {line.index(" task") - len(display.name) - 1 for line in drawn} == {max(8, min(40, width // 5))}
    assert max(map(len, drawn)) <= width
    assert display.name == f"{method} seed 0" or width == 40
    if width >= 80:
        assert "epoch 2/2 · " in text.getvalue()
        assert "left" in text.getvalue()
    if width == 200:
        assert re.search(r"left · recall 97.3 % · \d+ steps/s", text.getvalue())


@pytest.mark.parametrize("width", [60, 80])
def test_a_grid_of_long_names_fits(width):
    screen, text = console(terminal=True, width=width)
    long = "every class by itself, expanding, with a very long name of a study's arm, seed 3"
    with ComparisonDisplay(40, screen, lambda spec: long if spec.seed else f"{spec.method} seed 0") as display:
        for seed in (0, 1):
            spec = make_spec(method="tfcsr-distill", benchmark="split-cifar100", tasks=10, epochs=100, seed=seed)
            for event in ({"event": "run_started", "epochs": 100}, {"event": "task_started", "task": 10}):
                display(spec, event)
                display.progress.refresh()
    last = lines_of(text)[-2:]
    assert all(line.rstrip().endswith("task 10/10 epoch 1/100") for line in last)
    assert last[0].startswith("  tfcsr-distill seed 0 ")
    assert max(map(len, lines_of(text))) <= width


def test_a_learn_on_a_narrow_terminal(monkeypatch):
    display = LearnDisplay(shown=False)
    screen, _ = console(terminal=True, width=50)
    display.console = screen
    clock = itertools.count(step=3.0)
    monkeypatch.setattr("tfcsr.reporting.progress.time.monotonic", lambda: next(clock))
    for event in quick_run(tasks=1):
        display(event)
    assert display.progress.tasks[-1].fields["detail"] == "epoch 20 of 20 · 0:00 left"


def test_a_run_is_told_by_what_was_chosen_for_it(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    plain = make_spec(method="er", benchmark="split-digits", threads=tfcsr.experiments.machine.cores(), epochs=20)
    assert heading(plain, 80) == "er on split-digits, seed 0"
    assert heading(plain.replace(seed=3, epochs=2, lr=0.01), 80) == "er on split-digits, seed 3: epochs 2, lr 0.01"
    paper = plain.replace(protocol="paper", augment="crop-flip")
    assert heading(paper, 80) == "er on split-digits, seed 0: protocol paper, augment crop-flip"
    spaced = plain.replace(method="tfcsr-spaced", schedule="fixed", threads=plain.threads + 1, out="here")
    assert heading(spaced, 90) == (f"tfcsr-spaced on split-digits, seed 0: schedule fixed, threads {spaced.threads}")


@pytest.mark.parametrize("width", range(50, 150, 9))
def test_it_is_one_line_on_every_terminal(width):
    many = {"epochs": 3, "batch_size": 32, "lr": 0.01, "optimizer": "sgd", "momentum": 0.5, "buffer_capacity": 77}
    spec = make_spec(method="tfcsr-spaced", benchmark="split-digits", class_order=tuple(range(10)), **many)
    line = heading(spec, width)
    assert len(line) <= width
    assert line.startswith("tfcsr-spaced on split-digits, seed 0: ")
    chosen = settings(spec)
    shown = [setting for setting in chosen if f" {setting}" in line]
    left_out = re.search(r" (\d+) more$", line)
    assert len(shown) + (int(left_out[1]) if left_out else 0) == len(chosen)
    assert shown == chosen[: len(shown)]


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

        quick = {"epochs": 2, "device": "cpu", "workers": 1}
        tfcsr.compare(benchmark="tiny", methods=["er", "mgp"], seeds=2, watcher=watcher, **quick)
    shown = text.getvalue()
    assert re.search(r"all runs .* 2/4 · \d+:\d\d left", shown)
    assert re.search(r"mgp seed 1 .* task 1/3 epoch 1/6", shown)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_on_request(monkeypatch, terminal, tmp_path):
    screen, text = console(terminal=terminal)
    asked = []
    monkeypatch.setattr("rich.console.Console", lambda **settings: asked.append(settings) or screen)
    told, events = [], []
    quick = {"benchmark": "tiny", "epochs": 2, "device": "cpu"}
    tfcsr.compare(methods="er", seeds=[4, 5], workers=1, watcher=lambda *news: told.append(news), **quick)
    assert (text.getvalue(), asked) == ("", [])
    told.clear()
    again = {"methods": "er", "seeds": [4, 5], "workers": 1, "out": tmp_path / "grid", **quick}
    tfcsr.compare(progress=True, watcher=lambda *news: told.append(news), **again)
    assert asked == [{"stderr": True}]
    assert {spec.seed for spec, _ in told} == {4, 5}  # who watches is told as well
    if terminal:
        assert "all runs" in text.getvalue()
    else:
        assert re.fullmatch(r"1/2 er seed 4: \d+\.\d\d %\n2/2 er seed 5: \d+\.\d\d %\n", text.getvalue())
    spec = tfcsr.RunSpec(method="er", threads=1, out=str(tmp_path / "run"), **quick)
    tfcsr.run(spec, [events.append], progress=True)
    assert "er on tiny, seed 0: epochs 2" in text.getvalue()
    assert "task 3/3: " in text.getvalue()
    assert events[-1]["event"] == "run_finished"
    before = len(text.getvalue())
    tfcsr.resume(tmp_path / "run", progress=True)  # it is complete
    assert "task" not in text.getvalue()[before:]


def test_what_python_users_call_has_the_arguments_of_what_does_the_work():
    for public, inner in ((tfcsr.compare, compare.compare), (tfcsr.run, run.run)):
        theirs = dict(inspect.signature(public).parameters)
        progress = theirs.pop("progress")
        assert (progress.default, progress.kind) == (False, inspect.Parameter.KEYWORD_ONLY)
        ours = inspect.signature(inner).parameters
        assert list(theirs) == list(ours)
        for name, parameter in ours.items():
            assert theirs[name].kind == parameter.kind
            assert theirs[name].default == parameter.default or callable(parameter.default)
        assert "`progress` shows" in public.__doc__


def test_that_memory_ended_is_said():
    screen, text = console(terminal=False)
    ComparisonDisplay(2, screen)(make_spec(method="er"), {"event": "out_of_memory", "at_once": 3, "time": 0.0})
    assert "er seed 0: no memory left beside the others; it waits, 3 at once go on" in text.getvalue()


def test_a_failed_run_of_a_grid_is_said():
    screen, text = console(terminal=False)
    display = ComparisonDisplay(2, screen)
    display(make_spec(method="er"), TfcsrError("[bold]no room[/bold]"))
    assert "1/2 er seed 0: failed: [bold]no room[/bold]" in text.getvalue()
