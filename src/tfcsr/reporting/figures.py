"""Pictures of results, for papers: `tfcsr plot`. The page shows the same, to be played with."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import MaxNLocator

from tfcsr.errors import OutputError, SpecError, printable
from tfcsr.experiments.reading import Results
from tfcsr.experiments.result import Result, is_kind
from tfcsr.experiments.statistics import FEWEST, Estimate, optional_estimate
from tfcsr.files import PART, sync_folder, writing
from tfcsr.reporting.pages import bound
from tfcsr.reporting.series import Group, Series, example, grouped
from tfcsr.reporting.styles import marker
from tfcsr.reporting.view import class_names, thinned

FORMATS = ("png", "svg", "pdf")
# Text stays text in what is written; the same results give the same bytes.
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "tfcsr",
}
WIDTH, HEIGHT = 5.2, 3.8  # inches, of one picture
LONGEST_TICK = 24
MOST_TICKS = 12
MOST_TASKS = 500  # in a matrix: more than its picture has points for


def _plain(name: str) -> str:
    """A name from a file as it is: a dollar sign would begin a formula."""
    return printable(name).replace("$", r"\$")


def _title(axes: Axes, text: str) -> None:
    axes.set_title(_plain(text))


def _spread(value: Estimate) -> float:
    return value.half_width or 0.0


def _possible(accuracy: Estimate) -> list[list[float]]:
    """Below and above the mean: the interval as far as an accuracy can be."""
    spread = _spread(accuracy)
    return [[min(spread, accuracy.mean)], [min(spread, 100 - accuracy.mean)]]


def _seeds(series: Sequence[Series]) -> str:
    numbers = {len(one.results()) for one in series}
    n = f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else str(*numbers)
    return f"mean of {n} seed{'' if n == '1' else 's'}" + (", 95 % interval" if max(numbers) >= FEWEST else "")


def learning_curves(axes: Axes, group: Group) -> None:
    """Accuracy over all classes seen, after each task: the mean of each series with its 95 % interval."""
    for one in group.series:
        runs = [result.accuracy_after_task for result in one.results().values()]
        found = [optional_estimate(values) for values in zip(*runs, strict=True)]
        tasks = [task for task, point in enumerate(found, start=1) if point is not None]
        points = [point for point in found if point is not None]
        axes.plot(tasks, [p.mean for p in points], one.line, color=one.colour, label=_plain(one.label), lw=1.8)
        low = [max(0.0, bound(p, "low")) for p in points]
        high = [min(100.0, bound(p, "high")) for p in points]
        axes.fill_between(tasks, low, high, color=one.colour, alpha=0.12, lw=0)
    axes.set(xlabel="tasks learned", ylabel="accuracy over all classes seen (%)", ylim=(0, 102))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes, "lower left")
    _title(axes, f"{group.name}: {_seeds(group.series)}")


def _legend(axes: Axes, corner: Literal["lower left", "lower right"]) -> None:
    entries = len(axes.get_legend_handles_labels()[1])
    if entries <= 10:
        axes.legend(ncols=1 if entries < 5 else 2, loc=corner)
    else:  # beside the picture, where it hides nothing
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1))


def final_accuracy(axes: Axes, group: Group) -> None:
    """Each series' mean with its interval, and its seeds."""
    for i, one in enumerate(group.series):
        accuracy = one.accuracy()
        assert accuracy is not None
        seeds = [result.final_accuracy for result in one.results().values()]
        axes.plot(seeds, [i + 0.25] * len(seeds), ".", color=one.colour, ms=3, alpha=0.6)
        axes.errorbar(accuracy.mean, i, xerr=_possible(accuracy), fmt=_mark(one), color=one.colour, ms=5, capsize=2)
    _rows(axes, group.series)
    axes.set(xlabel="final accuracy (%)", xlim=(-2, 102))
    _title(axes, f"{group.name}: {_seeds(group.series)}")


def differences(axes: Axes, group: Group) -> None:
    """To the baseline, seed by seed; filled where the interval leaves out 0."""
    axes.axvline(0, color="#666666", lw=1)
    for i, one in enumerate(group.series):
        if (difference := one.difference()) is None:
            continue
        clear = difference.low is not None and difference.high is not None and difference.low * difference.high > 0
        face = one.colour if clear else "white"
        spread = _spread(difference)
        axes.errorbar(difference.mean, i, xerr=spread, fmt=_mark(one), color=one.colour, mfc=face, ms=6, capsize=2)
    _rows(axes, group.series)
    names = {one.against.label for one in group.series if one.against is not None}
    axes.set(xlabel=_plain(f"paired difference to {names.pop() if len(names) == 1 else 'its baseline'} (points)"))


def _rows(axes: Axes, series: Sequence[Series]) -> None:
    axes.set_yticks(range(len(series)), [_plain(one.label) for one in series])
    axes.set_ylim(len(series) - 0.5, -0.5)


def _mark(one: Series) -> str:
    return marker(one.method, one.variant)


def accuracy_matrix(axes: Axes, group: Group) -> None:
    """Of the series that probed most, or the best: the mean accuracy on each task after each."""
    one = example(group.series)
    runs = [result.accuracy_matrix for result in one.results().values()]
    evaluated = one.evaluated(group.tasks)
    places = [evaluated[i] for i in thinned(len(evaluated), MOST_TASKS)]
    rows = {i: [row for run in runs if (row := run[i]) is not None] for i in places}
    mean = [
        [sum(row[j] for row in rows[i]) / len(rows[i]) if j <= i and rows[i] else float("nan") for j in places]
        for i in places
    ]
    _heat(axes, mean, places)
    if len(places) <= MOST_TICKS:
        for i, row in enumerate(mean):
            for j, value in enumerate(row[: i + 1]):
                axes.text(j, i, f"{value:.0f}", ha="center", va="center", color="black" if value > 55 else "white")
    axes.set(xlabel="accuracy on task", ylabel="after task")
    axes.set_yticks(*_ticks(places))
    _title(axes, f"{one.label} on {group.name}")


def retention(axes: Axes, group: Group) -> None:
    """What is forgotten when: the mean accuracy on each class after each task, from the one that brought it on."""
    one = example(group.series)
    results = list(one.results().values())
    arrived = [(label, task) for task, classes in enumerate(results[0].classes_per_task) for label in classes]
    arrived = [(label, task) for label, task in arrived if 0 <= label < len(results[0].class_accuracy[-1] or [])]
    same = [r for r in results if r.classes_per_task == results[0].classes_per_task]
    places = one.evaluated(group.tasks)
    known = {i: [row for r in same if (row := r.class_accuracy[i]) is not None] for i in places}
    rows = [
        [
            sum(row[label] for row in known[i]) / len(known[i]) if i >= task and known[i] else float("nan")
            for i in places
        ]
        for label, task in arrived
    ]
    _heat(axes, rows, places)
    axes.set(xlabel="after task", ylabel="class, by arrival")
    if len(arrived) <= 30:
        called = class_names(next((r.class_names for r in same if r.class_names), []))
        axes.set_yticks(range(len(rows)), [_tick(called.get(label, ""), str(label)) for label, _ in arrived])
    _title(axes, f"{one.label} on {group.name}")


def _tick(name: str, number: str) -> str:
    """A name on an axis; the number where there is none, or the font has no letters for it."""
    font = get_font(findfont(FontProperties()))
    if not name or not all(map(font.get_char_index, map(ord, name))):
        return number
    return _plain(name if len(name) <= LONGEST_TICK else f"{name[: LONGEST_TICK - 1]}…")


def _ticks(places: Sequence[int]) -> tuple[list[int], list[str]]:
    """Where an axis of tasks is marked, and their numbers."""
    marked = thinned(len(places), MOST_TICKS)
    return marked, [str(places[i] + 1) for i in marked]


def _heat(axes: Axes, values: Sequence[Sequence[float]], places: Sequence[int]) -> None:
    """A column for each of the tasks at these places."""
    image = axes.imshow(values, cmap="cividis", vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(image, ax=axes, label="accuracy (%)", shrink=0.9)
    axes.set_xticks(*_ticks(places))
    axes.spines[:].set_visible(False)


def _probed(one: Series) -> list[Result]:
    return [result for result in one.results().values() if result.probes]


def recall_timeline(axes: Axes, result: Result) -> None:
    """When each probe of a run fired, what it found, and the gap until the next."""
    starts = [0, *accumulate(result.epochs_per_task)][:-1]
    for task, (start, epochs) in enumerate(zip(starts, result.epochs_per_task, strict=True), start=1):
        axes.axvspan(start, start + epochs, color="#000000", alpha=0.05 if task % 2 else 0.0, lw=0)
        if len(starts) <= 12:
            axes.annotate(
                f"task {task}", (start + epochs / 2, 0.02), xycoords=("data", "axes fraction"), ha="center", size=8
            )
    for probe in result.probes:
        start, epochs = starts[probe["task"] - 1], result.epochs_per_task[probe["task"] - 1]
        at = start + probe["epoch"]
        colour = "#0072B2" if probe["passed"] else "#D55E00"
        if probe["next_epoch"] is not None:
            end = start + min(probe["next_epoch"], epochs)
            axes.plot([at, end], [probe["recall"]] * 2, color=colour, lw=1, alpha=0.6)
        axes.plot(at, probe["recall"], "o" if probe["passed"] else "x", color=colour, ms=5)
    threshold, lowest = result.spec.get("mastery_threshold"), min(probe["recall"] for probe in result.probes)
    if threshold is not None and is_kind(threshold, float):
        axes.axhline(threshold, color="#666666", lw=0.8, ls=":")
        lowest = min(lowest, threshold)
        # In the axis, where no probe can lie on it.
        axes.annotate(
            f"{threshold:g} % to\npass",
            (1, threshold),
            xytext=(3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            size=8,
            va="center",
            color="#666666",
        )
    axes.set(
        xlabel="epoch",
        ylabel="recall of the buffer (%)",
        # From 0, unless everything lies so high that half of the picture would be empty.
        ylim=(0 if lowest < 50 else lowest - 12, 101.5),
        xlim=(0, sum(result.epochs_per_task)),
    )
    spec = result.spec
    _title(axes, f"{spec['method']}, seed {spec['seed']}: probes passed (•) and failed (×)")


def _timeline(axes: Axes, group: Group) -> None:
    probed = _probed(example(group.series))
    if not probed:
        raise SpecError(f"no complete run on {group.name} has probed its buffer: there is no timeline to draw")
    recall_timeline(axes, probed[0])


def cost(axes: Axes, group: Group) -> None:
    """Final accuracy against optimizer steps, which every method takes."""
    for one in group.series:
        accuracy, price = one.accuracy(), one.cost("optimizer_steps")
        assert accuracy is not None
        assert price is not None
        look: dict[str, Any] = {"fmt": _mark(one), "color": one.colour, "label": _plain(one.label)}
        face = "white" if one.upper_bound else one.colour
        axes.errorbar(price, accuracy.mean, yerr=_possible(accuracy), mfc=face, **look)
    axes.set(xlabel="optimizer steps", ylabel="final accuracy (%)", ylim=(0, 102))
    axes.set_xlim(left=0)
    _legend(axes, "lower right")
    _title(axes, f"{group.name}: {_seeds(group.series)}")


Part = Callable[[Axes, Group], None]
FIGURES: Mapping[str, tuple[Part, ...]] = {
    "overview": (learning_curves, _timeline),
    "curves": (learning_curves,),
    "final": (final_accuracy, differences),
    "matrix": (accuracy_matrix,),
    "timeline": (_timeline,),
    "retention": (retention,),
    "cost": (cost,),
}


def figure(name: str, group: Group) -> Figure:
    """One of FIGURES, of the complete runs of a group."""
    parts = FIGURES[name]
    if name == "overview" and not any(_probed(one) for one in group.series):
        parts = parts[:1]
    height = max(HEIGHT, 1 + 0.28 * len(group.series))
    made = Figure(figsize=(WIDTH * len(parts) - 0.4 * (len(parts) - 1), height), layout="constrained")
    for axes, draw in zip(made.subplots(1, len(parts), squeeze=False)[0], parts, strict=True):
        draw(axes, group)
    return made


def plot(
    folder: str | Path,
    name: str = "overview",
    *,
    benchmark: str | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    format: str | None = None,
    out: str | Path | None = None,
) -> Path:
    """Write a figure of a results folder, by default into it, and say where it is.

    `methods` and `seeds` choose which runs are drawn; without them all are.
    """
    if name not in FIGURES:
        raise SpecError(f"unknown figure {name!r}: use one of {', '.join(FIGURES)}")
    path = Path(out) if out is not None else None
    kind = format or (path.suffix.removeprefix(".") if path is not None else "png")
    if kind not in FORMATS:
        raise SpecError(f"unknown format {kind!r}: use one of {', '.join(FORMATS)}, or such an ending of --out")
    results = Results(folder)
    results.look()
    groups = grouped([run for run in results.runs if run.result is not None], results.baseline)
    names = [group.name for group in groups]
    chosen = [group for group in groups if benchmark is None or group.name == benchmark]
    if not groups:
        raise OutputError(f"{folder} holds no complete run: there is nothing to draw yet")
    if len(chosen) != 1:
        raise SpecError(f"{folder} holds results on {'; '.join(names)}: choose one of them with --benchmark")
    group = _narrowed(chosen[0], methods, seeds, results.baseline)
    path = path or Path(folder) / f"{name}.{kind}"
    if path.is_dir():
        raise OutputError(f"{path} is a folder: give a file as --out")
    with matplotlib.rc_context(STYLE):
        picture = figure(name, group)
        save(picture, path, kind)
    return path


def _narrowed(group: Group, methods: Sequence[str] | None, seeds: Sequence[int] | None, baseline: str | None) -> Group:
    """The same tasks with the chosen methods and seeds alone. Each that is named must be there."""
    runs = [run for one in group.series for run in one.runs]
    if methods is not None:
        _require("method", methods, {run.spec["method"] for run in runs}, group)
        runs = [run for run in runs if run.spec["method"] in methods]
    if seeds is not None:
        _require("seed", seeds, {run.spec["seed"] for run in runs}, group)
        runs = [run for run in runs if run.spec["seed"] in seeds]
        for method in methods or ():
            if method not in {run.spec["method"] for run in runs}:
                there = {run.spec["seed"] for one in group.series for run in one.runs if one.method == method}
                _require(f"seed of {method}", seeds, there, group)
    if methods is None and seeds is None:
        return group
    (narrowed,) = grouped(runs, baseline)
    narrowed.name = group.name
    return narrowed


def _require(what: str, asked: Sequence[Any], there: Iterable[Any], group: Group) -> None:
    known = sorted(set(there))
    listed = printable(", ".join(map(str, known)))
    if not asked:
        raise SpecError(f"no {what} is chosen: use one or more of {listed}")
    for value in asked:
        if value not in known:
            name = printable(str(value))
            raise SpecError(f"no complete run on {group.name} has {what} {name}: use one or more of {listed}")


def save(picture: Figure, path: Path, kind: str) -> None:
    """Whole or not at all. Without a date or a version: the same results are the same file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    undated: dict[str, Any] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            picture.savefig(beside, format=kind, dpi=150, metadata=undated[kind])
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    sync_folder(path.parent)
