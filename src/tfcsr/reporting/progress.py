"""Live displays: listeners of a run and of a comparison. Where there is no terminal they print a line now and then."""

import time
from collections import deque
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from tfcsr.errors import TfcsrError, printable
from tfcsr.experiments.result import Result
from tfcsr.options import format_value
from tfcsr.spec import RunSpec
from tfcsr.training.events import Event


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
        if event["event"] in ("run_started", "run_resumed", "step"):
            self.epochs = event["epochs"]
        if event["event"] == "probe":
            self.recall = event["recall"]
        elif event["event"] == "run_resumed":
            self.task, self.epoch = event["task"], event["epoch"]
            self.share = self.before = (self.task - 1 + self.epoch / self.epochs) / self.tasks
        elif event["event"] == "step":
            self.task, self.epoch = event["task"], event["epoch"]
            in_task = (self.epoch - 1 + event["step"] / event["steps"]) / self.epochs
            self.share = (self.task - 1 + in_task) / self.tasks
        elif event["event"] == "task_finished":  # mgp may be done before its last epoch
            self.share = event["task"] / self.tasks

    def text(self) -> str:
        return f"task {self.task}/{self.tasks} epoch {self.epoch}/{self.epochs}"


class RunDisplay:
    """One run: task, epoch, steps per second, time left, last recall."""

    def __init__(self, spec: RunSpec, console: Console) -> None:
        self.console = console
        self.position = Position(spec)
        self.governed = spec.governed()
        self.begun = False
        self.started = time.monotonic()
        self.steps: deque[float] = deque(maxlen=200)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[detail]}"))
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.bar: TaskID = self.progress.add_task(f"{spec.method} seed {spec.seed}", total=1.0, detail="starting")

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
            in_force = [f"{name} {format_value(event['spec'][name])}" for name in (*self.governed, "augment")]
            text = f"protocol {event['spec']['protocol']}: {', '.join(in_force)}"
            self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif event["event"] == "run_resumed":
            self.started = time.monotonic()
            text = f"going on after task {event['task']}, epoch {event['epoch']}"
            self.progress.console.print(text, highlight=False)
        elif event["event"] == "checkpoint_damaged":
            text = f"{event['problem']}: the checkpoint before it, after {event['epochs']} epochs, takes its place"
            self.progress.console.print(Text(printable(text), style="red"), soft_wrap=True)
        elif event["event"] == "step":
            self.steps.append(time.monotonic())
            self.progress.update(self.bar, completed=self.position.share, detail=self._detail())
        elif event["event"] == "task_finished":
            self.progress.console.print(
                f"task {event['task']}/{self.position.tasks}: {event['accuracy']:.2f} % over all classes seen,"
                f" {event['epochs']} epochs, {clock(time.monotonic() - self.started)}",
                highlight=False,
            )
        elif event["event"] == "collapsed":
            text = f"the network died in task {event['task']}: it gives the same answer to every image"
            self.progress.console.print(Text(text, style="bold red"))

    def _detail(self) -> str:
        parts = [self.position.text()]
        if len(self.steps) > 1:
            parts.append(f"{(len(self.steps) - 1) / (self.steps[-1] - self.steps[0]):.0f} steps/s")
        spent, share = time.monotonic() - self.started, self.position.share
        if spent > 1:
            parts.append(f"{clock(spent * (1 - share) / (share - self.position.before))} left")
        if self.position.recall is not None:
            parts.append(f"recall {self.position.recall:.1f} %")
        return " · ".join(parts)


class LearnDisplay:
    """One call of `learn` on a terminal: images packed, then epochs, time left, recall. It leaves nothing there."""

    def __init__(self, *, shown: bool) -> None:
        self.console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[detail]}"))
        self.progress = Progress(*columns, console=self.console, transient=True, disable=not shown)
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
        self._show("learning", share, " · ".join(parts))

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
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[detail]}"))
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.total = self.progress.add_task("all runs", total=runs, detail=f"0/{runs}")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, spec: RunSpec, news: Event | Result | TfcsrError) -> None:
        if isinstance(news, dict):
            self._event(spec, news)
        else:
            self._ended(spec, news)
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
            bar = self.progress.add_task(f"  {name}", total=1.0, detail="")
            self.open[key] = (bar, Position(spec))
        bar, position = self.open[key]
        position(event)
        self.progress.update(bar, completed=position.share, detail=position.text())
        if event["event"] == "collapsed":
            self.progress.console.print(Text(f"{name}: the network died in task {event['task']}", style="red"))
        elif event["event"] == "out_of_memory":
            text = f"{name}: no memory left beside the others; it waits, {event['at_once']} at once go on"
            self.progress.console.print(Text(text, style="yellow"))

    def _ended(self, spec: RunSpec, news: Result | TfcsrError) -> None:
        name, key = self.label(spec), spec.key()
        self.done += 1
        if key in self.open:
            self.progress.remove_task(self.open.pop(key)[0])
        elif isinstance(news, Result):
            self.found += 1
            return
        said = f"{news.final_accuracy:.2f} %" if isinstance(news, Result) else f"failed: {news}"
        if isinstance(news, TfcsrError) or not self.console.is_terminal:
            self.progress.console.print(Text(f"{self.done}/{self.runs} {name}: {said}"))
