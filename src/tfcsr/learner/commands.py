"""What `tfcsr learn`, `predict` and `recall` do: the learner on a command line."""

import csv
import io
import json
import shlex
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tfcsr import processes
from tfcsr.data import arriving, npz
from tfcsr.errors import DataError, OutputError, SpecError, counted, printable
from tfcsr.experiments.machine import keep_freed_memory
from tfcsr.experiments.stop import stopped_by_signals
from tfcsr.learner import Learner
from tfcsr.learner.folder import is_learner
from tfcsr.learner.records import Recalled
from tfcsr.reporting.tables import Column, FittingTable
from tfcsr.reporting.words import rough_time

# So many images are read and answered at a time.
AT_ONCE = 1024
# What may be given for one learn of a network that has its settings already.
OF_ONE_LEARN = ("epochs", "device")
TRAINED_ON = (
    "these examples were trained on, which flatters; a network begun with --exam-share 0.1 keeps some that were not"
)


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
    restart: bool,
    fields: dict[str, Any],
) -> None:
    command = "the same command"
    if folder is None:
        place = Path(out or "model")
        learner = _begun(place, size, head, fields, data)
        fields = {}
    else:
        learner, place = _kept(Path(folder), out, size, head, fields)
        words = [*processes.here().command().split(), "learn", folder, "--data", data]
        words += [word for name, value in fields.items() for word in (f"--{name}", str(value))]
        words += ["--skip-unreadable"] if skip_unreadable else []
        command = f"`{shlex.join(words)}`"
        if not again and learner.has_just_learned(data, skip_unreadable=skip_unreadable):
            raise SpecError(f"{place} has learned {data} already: give --again to learn it once more")
    keep_freed_memory()
    epochs = fields.get("epochs")
    with _on_command_line(), stopped_by_signals() as stop:
        done = learner.learn(
            data,
            epochs=None if epochs is None else int(epochs),
            resume=learner.is_learning and not restart,
            skip_unreadable=skip_unreadable,
            progress=console.is_terminal,
            folder=place,
            stop=stop,
            command=command,
        )
    learner.save(place)
    for line in _told(learner, done, place):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _on_command_line() -> Iterator[None]:
    """What a learner says to do, as it is done here."""
    try:
        yield
    except OutputError as error:
        raise OutputError(str(error).replace("resume=False", "--restart")) from None


def _kept(
    folder: Path, out: str | None, size: int | None, head: str | None, fields: dict[str, Any]
) -> tuple[Learner, Path]:
    """A learner that goes on, and where; a run's network goes on in a folder of its own."""
    of_run = not is_learner(folder)
    own = {"out": None if of_run else out, "size": size, "head": head}
    given = [name for name in fields if name not in OF_ONE_LEARN] + [name for name, value in own.items() if value]
    if given:
        flag = given[0].replace("_", "-")
        raise SpecError(f"--{flag} is for a new network, {folder} has its own: leave it out")
    learner = Learner.load(folder, device=fields.get("device"))
    if not of_run:
        return learner, folder
    if out is None:
        raise OutputError(f"{folder} holds a run: give --out DIR for the network that goes on from it")
    if (Path(out) / "spec.json").exists():
        raise OutputError(f"{out} is not empty: choose another --out")
    return learner, Path(out)


def _begun(place: Path, size: int | None, head: str | None, fields: dict[str, Any], data: str) -> Learner:
    """A new learner; or the one that was begun in its folder with the same settings and has learned nothing yet."""
    learner = Learner(size=size, head=head, **fields)
    if not (place / "spec.json").exists():
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
        found = learner.recall()
        worst = ", ".join(f"{label} ({value:.0f} points)" for label, value in list(found.forgotten.items())[:5])
        said = f"being forgotten: {worst}" if worst else _nothing(found)
        what = "exam" if found.exam else "recall"
        of = counted(len(learner.classes), "class", "classes")
        yield printable(f"{what} {done.recall:.1f} % of {of}{_within(found)}; {said}")
    recall = f"tfcsr recall {place}, " if done.recall is not None else ""
    yield printable(f"kept in {place}: tfcsr predict {place} FILE..., {recall}tfcsr report {place}")


def _within(found: Recalled) -> str:
    """How much a recall can be trusted."""
    return "" if found.interval is None else " (95 % interval {:.1f} to {:.1f})".format(*found.interval)


def _nothing(found: Recalled) -> str:
    """That no class is said to be forgotten, as far as the examples asked can tell."""
    return "no class lost more than chance explains" if found.exam else "no sign of forgetting in what was trained on"


def predict(
    folder: str,
    files: Sequence[str],
    among: str | None,
    json: bool,
    csv: bool,
    skip_unreadable: bool,
    device: str | None,
) -> None:
    if json and csv:
        raise SpecError("--json and --csv were both given: choose one")
    learner = Learner.load(folder, device=device)
    names = [str(label) for label in learner.classes]
    meant = None if among is None else _labels(learner, among)
    form = _as_json if json else _as_csv if csv else _as_lines
    width = max((len(file) for file in files), default=0)
    begun = False
    for paths, x in _inputs(learner, files, skip_unreadable):
        found = learner.predict_proba(x, meant)
        if csv and not begun:
            print("file,label,probability")
        begun = True
        for path, row in zip(paths, found, strict=True):
            best = int(row.argmax())
            print(form(path, names[best], float(row[best]), width))


def _labels(learner: Learner, text: str) -> list[Hashable]:
    """The labels that are written so."""
    known = {str(label): label for label in learner.classes}
    return [known.get(name, name) for name in text.split(",") if name]


def _inputs(learner: Learner, files: Sequence[str], skip_unreadable: bool) -> Iterator[tuple[list[str], Any]]:
    """What is asked about, some at a time, with a name for each."""
    images: list[Path] = []
    skipped: list[Path] = []
    # What cannot be asked about is refused before the first answer.
    arrays = {file: learner.checked(npz.read_examples(Path(file))) for file in files if Path(file).suffix == ".npz"}
    for file in files:
        if file in arrays:
            yield from _some_images(learner, images, skip_unreadable, skipped)
            images = []
            yield [f"{file}[{i}]" for i in range(len(arrays[file]))], arrays[file]
        else:
            images += arriving.images(Path(file))
    yield from _some_images(learner, images, skip_unreadable, skipped)
    if skipped:
        names = printable(", ".join(map(str, skipped[:5])))
        print(f"tfcsr: {counted(len(skipped), 'file')} left out: {names}", file=sys.stderr)


def _some_images(
    learner: Learner, images: Sequence[Path], skip_unreadable: bool, skipped: list[Path]
) -> Iterator[tuple[list[str], Any]]:
    for start in range(0, len(images), AT_ONCE):
        paths = list(images[start : start + AT_ONCE])
        if skip_unreadable:
            sound, x = _readable(learner, paths)
            skipped += [path for path in paths if path not in sound]
            paths = sound
        else:
            x = learner.read_images(paths)
        if paths:
            yield [str(path) for path in paths], x


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
    # A name may hold bytes that are no text; and what ends a line is quoted only where the writer knows it.
    names = [name.encode(errors="backslashreplace").decode() for name in (file, label)]
    csv.writer(line, lineterminator="\r\n").writerow([*names, f"{probability:.6f}"])
    return line.getvalue().removesuffix("\r\n")


def recall(console: Console, *, folder: str, json: bool, device: str | None) -> None:
    learner = Learner.load(folder, device=device)
    found = learner.recall()
    if json:
        _print_json(found)
        return
    asked = f"an exam of {counted(found.asked, 'example')}" if found.exam else f"{counted(found.asked, 'example')} kept"
    title = f"{asked}: {found.overall:.1f} % recalled{_within(found)}"
    values = [(found.per_class.get(label), found.best.get(label)) for label in found.kept]
    known = [None if now is None or best is None else (now, best) for now, best in values]
    columns = [
        Column("class", [printable(str(label)) for label in found.kept], leading=True, text=True),
        Column("kept", [str(kept) for kept in found.kept.values()]),
        *([Column("exam", [str(found.questions.get(label, 0)) for label in found.kept])] if found.exam else []),
        Column("recall %", ["-" if one is None else f"{one[0]:.1f}" for one in known]),
        Column("best %", ["-" if one is None else f"{one[1]:.1f}" for one in known]),
        Column("change", ["" if one is None else _change(one[0] - one[1]) for one in known]),
    ]
    console.print(FittingTable(title, columns))
    names = printable(", ".join(map(str, list(found.forgotten)[:10])))
    said = f"being forgotten: {names}" if found.forgotten else _nothing(found)
    console.print(said, markup=False, highlight=False)
    if not found.exam:
        console.print(TRAINED_ON, markup=False, highlight=False)


def _change(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−") if round(points, 1) else ""


def _print_json(found: Recalled) -> None:
    rows = [
        {"class": str(label), "kept": kept, "asked": found.questions.get(label, 0)}
        | {"recall": found.per_class.get(label), "best": found.best.get(label)}
        for label, kept in found.kept.items()
    ]
    forgotten = [str(label) for label in found.forgotten]
    told = {"overall": found.overall, "interval": found.interval, "exam": found.exam}
    print(json.dumps(told | {"classes": rows, "forgotten": forgotten}))
