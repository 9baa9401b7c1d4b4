"""Live displays: listeners of a run and of a comparison. Where there is no terminal they print a line now and then."""

import time
from collections import deque
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from tfcsr.errors import TfcsrError, counted, printable
from tfcsr.experiments.result import Result
from tfcsr.options import format_value
from tfcsr.reporting.words import fitting, shortened
from tfcsr.spec import RunSpec
from tfcsr.training.events import Event

LONGEST_POSITION = len("task 10/10 epoch 100/100")


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Position:
    """Where a run is, read off its events."""

    def __init__(self, spec: RunSpec) -> None:
        self.tasks = spec.tasks
        self.epochs = spec.epochs  # until the method, which may have its own mind, has said how many
        self.task = self.epoch = 1
        self.share = self.before = 0.0  # of the whole; and what had been done before a run was resumed
        self.recall: float | None = None

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        # Whatever says where it is, is believed: steps may be too fast for all of them to arrive.
        self.task = event.get("task", self.task)
        self.epoch = 1 if kind == "task_started" else event.get("epoch", self.epoch)
        if kind in ("run_started", "run_resumed", "step", "epoch_finished"):
            self.epochs = event["epochs"]
        if kind == "probe":
            self.recall = event["recall"]
        elif kind == "step":
            self.share = self._share(self.epoch - 1 + event["step"] / event["steps"])
        elif kind in ("run_resumed", "epoch_finished"):
            self.share = self._share(self.epoch)
            self.before = self.share if kind == "run_resumed" else self.before
        elif kind == "task_finished":  # mgp may be done before its last epoch
            self.share = self.task / self.tasks

    def _share(self, epochs: float) -> float:
        """How much of the whole is done, so many epochs into the task."""
        return (self.task - 1 + epochs / self.epochs) / self.tasks

    def text(self) -> str:
        return f"task {self.task}/{self.tasks} epoch {self.epoch}/{self.epochs}"


def settings(spec: RunSpec) -> list[str]:
    """What differs from the defaults, as a line names it. What this machine decides by itself is such a default."""
    from tfcsr.experiments.machine import on_this_machine

    given = {name: value for name, value in spec.given().items() if name not in ("benchmark", "method", "seed")}
    by_itself = on_this_machine(spec.replace(device="auto", precision="auto", threads=0)).to_dict()
    for name in ("device", "precision", "threads"):
        if given.get(name) == by_itself[name]:
            del given[name]
    return [printable(f"{name} {format_value(value)}") for name, value in given.items()]


def heading(spec: RunSpec, width: int) -> str:
    """A run in one line: what it is, then as much of what was chosen for it as has room."""
    chosen = settings(spec)
    end = f", seed {spec.seed}{':' if chosen else ''}"
    line = f"{spec.method} on "
    line += shortened(printable(spec.benchmark), max(12, width - len(line + end))) + end
    for i, setting in enumerate(chosen):
        more = len(chosen) - i - 1
        text = f" {setting}{',' if more else ''}"
        if len(line + text) + (len(f" {more} more") if more else 0) > width:
            return f"{line} {more + 1} more"
        line += text
    return line


def _bars(console: Console, *, shown: bool) -> Progress:
    """Lines of a name, a bar and a text. The bar has a fixed share of the line, so that the text cannot squeeze it."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(_bar_width(console)),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True, disable=not shown)


def _bar_width(console: Console) -> int:
    return max(8, min(40, console.width // 5))


def _room(console: Console, beside: int) -> int:
    """What the bar, so many cells of text and the gaps leave of a line."""
    return console.width - _bar_width(console) - beside - 2


def _name_room(console: Console) -> int:
    """Names are shortened before the text is: where a run is matters more, and a study's names are long."""
    return max(8, _room(console, len("  ") + LONGEST_POSITION))


class RunDisplay:
    """One run: task, epoch, steps per second, time left, last recall."""

    def __init__(self, spec: RunSpec, console: Console) -> None:
        self.console = console
        self.spec = spec
        self.position = Position(spec)
        self.begun = False
        self.started = time.monotonic()
        self.steps: deque[float] = deque(maxlen=200)
        self.name = shortened(f"{spec.method} seed {spec.seed}", _name_room(console))
        self.progress = _bars(console, shown=console.is_terminal)
        self.bar: TaskID = self.progress.add_task(self.name, total=1.0, detail="starting")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        self.begun = True
        self.position(event)
        if event["event"] == "run_started":
            self.started = time.monotonic()  # only now: what came before, imports and data, says nothing of the rest
            text = heading(self.spec, self.console.width)
            self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif event["event"] == "run_resumed":
            self.started = time.monotonic()
            text = f"going on after task {event['task']}, epoch {event['epoch']}"
            self.progress.console.print(text, highlight=False)
        elif event["event"] == "checkpoint_damaged":
            after = counted(event["epochs"], "epoch")
            text = f"{event['problem']}: the checkpoint before it, after {after}, takes its place"
            self.progress.console.print(Text(printable(text), style="red"), soft_wrap=True)
        elif event["event"] == "step":
            self.steps.append(time.monotonic())
            self.progress.update(self.bar, completed=self.position.share, detail=self._detail())
        elif event["event"] == "task_finished" and event["accuracy"] is not None:
            self.progress.console.print(
                f"task {event['task']}/{self.position.tasks}: {event['accuracy']:.2f} % over all classes seen,"
                f" {counted(event['epochs'], 'epoch')}, {clock(time.monotonic() - self.started)}",
                highlight=False,
            )
        elif event["event"] == "collapsed":
            text = f"the network died in task {event['task']}: it gives the same answer to every image"
            self.progress.console.print(Text(text, style="bold red"))

    def _detail(self) -> str:
        """The most important first: a narrow terminal leaves the rest out."""
        parts = [self.position.text()]
        spent, done = time.monotonic() - self.started, self.position.share - self.position.before
        if spent > 1 and done > 0:
            parts.append(f"{clock(spent * (1 - self.position.share) / done)} left")
        if self.position.recall is not None:
            parts.append(f"recall {self.position.recall:.1f} %")
        if self.steps[-1] > self.steps[0]:
            parts.append(f"{(len(self.steps) - 1) / (self.steps[-1] - self.steps[0]):.0f} steps/s")
        return fitting(parts, _room(self.console, len(self.name)))


class LearnDisplay:
    """One call of `learn` on a terminal: images packed, then epochs, time left, recall. It leaves nothing there."""

    def __init__(self, *, shown: bool) -> None:
        self.console = Console(stderr=True)
        self.progress = _bars(self.console, shown=shown)
        self.bar: TaskID | None = None
        self.started = 0.0
        self.before = 0.0  # what had been done before a learn was resumed
        self.recall: float | None = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def packing(self, done: int, total: int) -> None:
        self._show("packing images", done / max(1, total), f"{done} of {total}")
        if done >= total:
            self._next()

    def __call__(self, event: Event) -> None:
        if event["event"] == "probe":
            self.recall = event["recall"]
        if event["event"] != "step":
            return
        epoch, epochs = event["epoch"], event["epochs"]
        share = (epoch - 1 + event["step"] / event["steps"]) / epochs
        if self.started == 0:
            self.started, self.before = time.monotonic(), share
        parts = [f"epoch {epoch} of {epochs}"]
        spent = time.monotonic() - self.started
        if spent > 1 and share > self.before:
            parts.append(f"{clock(spent * (1 - share) / (share - self.before))} left")
        if self.recall is not None:
            parts.append(f"recall {self.recall:.1f} %")
        self._show("learning", share, fitting(parts, _room(self.console, len("learning"))))

    def _show(self, what: str, share: float, detail: str) -> None:
        if self.bar is None:
            self.bar = self.progress.add_task(what, total=1.0, detail=detail)
        self.progress.update(self.bar, completed=share, detail=detail)

    def _next(self) -> None:
        if self.bar is not None:
            self.progress.remove_task(self.bar)
            self.bar = None


class ComparisonDisplay:
    """A grid: a bar for the whole, and one for each run under way."""

    def __init__(
        self,
        runs: int,
        console: Console,
        label: Callable[[RunSpec], str] = lambda spec: f"{spec.method} seed {spec.seed}",
    ) -> None:
        self.console = console
        self.runs = runs
        self.label = label
        self.done = 0
        self.open: dict[str, tuple[TaskID, Position]] = {}
        self.started = time.monotonic()
        self.found = 0
        self.progress = _bars(console, shown=console.is_terminal)
        self.total = self.progress.add_task("all runs", total=runs, detail=f"0/{runs}")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, spec: RunSpec, update: Event | Result | TfcsrError) -> None:
        if isinstance(update, dict):
            self._event(spec, update)
        else:
            self._ended(spec, update)
        running = sum(position.share for _, position in self.open.values())
        left = ""
        if self.done - self.found + running > 0.2:
            spent = time.monotonic() - self.started
            rate = (self.done - self.found + running) / spent
            left = f" · {clock((self.runs - self.done - running) / rate)} left"
        self.progress.update(self.total, completed=self.done + running, detail=f"{self.done}/{self.runs}{left}")

    def _event(self, spec: RunSpec, event: Event) -> None:
        name, key = self.label(spec), spec.key()
        if key not in self.open:
            bar = self.progress.add_task(f"  {shortened(name, _name_room(self.console))}", total=1.0, detail="")
            self.open[key] = (bar, Position(spec))
        bar, position = self.open[key]
        position(event)
        self.progress.update(bar, completed=position.share, detail=position.text())
        if event["event"] == "collapsed":
            self.progress.console.print(Text(f"{name}: the network died in task {event['task']}", style="red"))
        elif event["event"] == "out_of_memory":
            text = f"{name}: no memory left beside the others; it waits, {event['at_once']} at once go on"
            self.progress.console.print(Text(text, style="yellow"))
        elif event["event"] == "node_lost":
            text = f"{name}: node {event['node']} was lost; it goes on elsewhere from its last checkpoint"
            self.progress.console.print(Text(printable(text), style="yellow"))

    def _ended(self, spec: RunSpec, update: Result | TfcsrError) -> None:
        name, key = self.label(spec), spec.key()
        self.done += 1
        if key in self.open:
            self.progress.remove_task(self.open.pop(key)[0])
        elif isinstance(update, Result):
            self.found += 1
            return
        said = f"{update.final_accuracy:.2f} %" if isinstance(update, Result) else f"failed: {update}"
        if isinstance(update, TfcsrError) or not self.console.is_terminal:
            self.progress.console.print(Text(f"{self.done}/{self.runs} {name}: {said}"))
