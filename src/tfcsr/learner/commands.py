"""What `tfcsr learn`, `predict` and `recall` do: the learner on a command line."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfcsr.data import arriving, npz
from tfcsr.errors import DataError, OutputError, SpecError, printable
from tfcsr.experiments.machine import keep_freed_memory
from tfcsr.experiments.stop import stopped_by_signals
from tfcsr.learner import Learner
from tfcsr.reporting.words import counted, rough_time

# So many images are read and answered at a time.
AT_ONCE = 1024
# What may be given for one learn of a network that has its settings already.
OF_ONE_LEARN = ("epochs", "device")


def learn(
    console: Console,
    *,
    folder: str | None,
    data: str,
    out: str | None,
    size: int | None,
    head: str | None,
    skip_unreadable: bool,
    again: bool,
    fields: dict[str, Any],
) -> None:
    if folder is None:
        learner, place = _begun(Path(out or "model"), size, head, fields, data), Path(out or "model")
        fields = {}
    else:
        place = Path(folder)
        given = [name for name in fields if name not in OF_ONE_LEARN] + [
            n for n, v in (("out", out), ("head", head)) if v
        ]
        if given:
            flag = given[0].replace("_", "-")
            raise SpecError(f"--{flag} is for a new network, {place} has its own: leave it out")
        learner = Learner.load(place, device=fields.get("device"))
        if not again and learner.has_just_learned(data, skip_unreadable=skip_unreadable):
            raise SpecError(f"{place} has learned {data} already: give --again to learn it once more")
    keep_freed_memory()
    epochs = fields.get("epochs")
    with stopped_by_signals() as stop:
        done = learner.learn(
            data,
            epochs=None if epochs is None else int(epochs),
            resume=learner.is_learning,
            skip_unreadable=skip_unreadable,
            progress=console.is_terminal,
            stop=stop,
            command=f"tfcsr learn {place} --data {data}" if folder else "the same command",
        )
    learner.save(place)
    for line in _told(learner, done, place):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _begun(place: Path, size: int | None, head: str | None, fields: dict[str, Any], data: str) -> Learner:
    """A new learner; or the one that was begun in its folder with the same settings and has learned nothing yet."""
    learner = Learner(size=size, head=head, **fields)
    if not (place / "spec.json").exists():
        learner.save(place)
        return learner
    there = Learner.load(place)
    if there.history:
        raise OutputError(
            f"{place} holds a network that has learned already: `tfcsr learn {place} --data {data}` goes on with it, or"
            " choose another --out"
        )
    if there.settings() != learner.settings():
        raise OutputError(f"{place} holds a network that was begun with other settings: choose another --out")
    return there


def _told(learner: Learner, done: Any, place: Path) -> Iterator[str]:
    new, known = len(done.new_classes), len(done.known_classes)
    classes = counted(new, "new class", "new classes") + (f", {known} known" if known else "")
    yield printable(
        f"learned {counted(done.examples, 'example')} of {classes} in {counted(done.epochs, 'epoch')},"
        f" {rough_time(done.seconds)}"
    )
    if done.recall is not None:
        lost = learner.recall().forgotten
        worst = ", ".join(f"{label} ({value:.0f} points)" for label, value in list(lost.items())[:5])
        said = f"being forgotten: {worst}" if lost else "nothing is being forgotten"
        yield printable(f"recall {done.recall:.1f} % of {counted(len(learner.classes), 'class', 'classes')}; {said}")
    yield printable(f"kept in {place}: tfcsr predict {place} FILE..., tfcsr recall {place}, tfcsr report {place}")


def predict(
    folder: str, files: Sequence[str], json: bool, csv: bool, skip_unreadable: bool, device: str | None
) -> None:
    if json and csv:
        raise SpecError("--json and --csv were both given: choose one")
    learner = Learner.load(folder, device=device)
    names = [str(label) for label in learner.classes]
    form = _as_json if json else _as_csv if csv else _as_lines
    width = max((len(file) for file in files), default=0)
    if csv:
        print("file,label,probability")
    for paths, x in _inputs(learner, files, skip_unreadable):
        found = learner.predict_proba(x)
        for path, row in zip(paths, found, strict=True):
            best = int(row.argmax())
            print(form(path, names[best], float(row[best]), width))


def _inputs(learner: Learner, files: Sequence[str], skip_unreadable: bool) -> Iterator[tuple[list[str], Any]]:
    """What is asked about, some at a time, with a name for each."""
    images: list[Path] = []
    for file in files:
        if Path(file).suffix == ".npz":
            x = npz.read_examples(Path(file))
            yield [f"{file}[{i}]" for i in range(len(x))], x
        else:
            images += arriving.images(Path(file))
    skipped: list[str] = []
    for start in range(0, len(images), AT_ONCE):
        paths = images[start : start + AT_ONCE]
        if skip_unreadable:
            sound, x = _readable(learner, paths)
            skipped += [str(path) for path in paths if path not in sound]
            paths = sound
        else:
            x = learner.read_images(paths)
        if paths:
            yield [str(path) for path in paths], x
    if skipped:
        print(f"tfcsr: {counted(len(skipped), 'file')} left out: {printable(', '.join(skipped[:5]))}", file=sys.stderr)


def _readable(learner: Learner, paths: Sequence[Path]) -> tuple[list[Path], Any]:
    sound, read = [], []
    for path in paths:
        try:
            read.append(learner.read_images([path])[0])
            sound.append(path)
        except DataError:
            continue
    return sound, np.stack(read) if read else None


def _as_lines(file: str, label: str, probability: float, width: int) -> str:
    return f"{printable(file):{width}}  {printable(label)}  {probability:.4f}"


def _as_json(file: str, label: str, probability: float, width: int) -> str:
    return json.dumps({"file": file, "label": label, "probability": round(probability, 6)})


def _as_csv(file: str, label: str, probability: float, width: int) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([file, label, f"{probability:.6f}"])
    return line.getvalue()


def recall(console: Console, *, folder: str, json: bool, device: str | None) -> None:
    learner = Learner.load(folder, device=device)
    found = learner.recall()
    if json:
        _print_json(found)
        return
    title = f"{counted(found.asked, 'example')} kept: {found.overall:.1f} % recalled"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("class", no_wrap=True)
    for column in ("kept", "recall %", "best %", "change"):
        table.add_column(column, justify="right", no_wrap=True)
    for label, kept in found.kept.items():
        now, best = found.per_class.get(label), found.best.get(label)
        shown = ("-", "-", "") if now is None or best is None else (f"{now:.1f}", f"{best:.1f}", _change(now - best))
        table.add_row(Text(printable(str(label))), str(kept), *shown)
    console.print(table)
    lost = found.forgotten
    names = printable(", ".join(map(str, list(lost)[:10])))
    console.print(f"being forgotten: {names}" if lost else "nothing is being forgotten", markup=False, highlight=False)


def _change(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−") if round(points, 1) else ""


def _print_json(found: Any) -> None:
    rows = [
        {"class": str(label), "kept": kept, "recall": found.per_class.get(label), "best": found.best.get(label)}
        for label, kept in found.kept.items()
    ]
    print(
        json.dumps({"overall": found.overall, "classes": rows, "forgotten": [str(label) for label in found.forgotten]})
    )
