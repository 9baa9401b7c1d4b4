"""Our own claims as figures: accuracy after each task, the frontier, and what the memory says against what is so."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from tfcsr.beyond.arms import NAMES, REPLAYING, SMALL
from tfcsr.beyond.honesty import SOURCES, binned, honesty
from tfcsr.beyond.outcomes import curve
from tfcsr.beyond.replay import Point, frontier
from tfcsr.beyond.study import Beyond
from tfcsr.reporting.pages import bound
from tfcsr.reporting.styles import marker, style
from tfcsr.reporting.words import capital

SIZE = 7.0, 4.4  # inches: legible where a page shows it 700 pixels wide
SHARES = -0.4, 112  # percent: 0 and 100 are in the picture
# Of the frontier: what is on the line, as the axis says it, and what stands beside it, with its mark, whether that is
# hollow, and how many points of print it is moved so that all can be seen.
ON_LINE: Mapping[str, str] = {
    "none": "never",
    "one": "epoch\n20",
    "two": "epochs\n10, 20",
    "spaced": "epochs 1, 3,\n5, 8, 13",
    "every": "every\nepoch",
}
BESIDE: Mapping[str, tuple[str, str, bool, float]] = {
    "fourth": ("every fourth epoch", "D", False, 9),
    "random": ("5 random epochs", "o", True, 18),
    "same-new": ("1, 3, 5, 8, 13, no more new images", "s", True, -9),
    "sixteen": ("every epoch, 16 of 64 images", "^", True, -10),
    "eight": ("every epoch, 8 of 64 images", "v", True, -20),
}


def draw_accuracy(study: Beyond) -> Figure | None:
    """Accuracy after each task."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for method, name in NAMES.items():
        runs = study.of(f"accuracy/{method}")
        if not runs:
            continue
        points, (colour, line) = curve(runs.values()), style(method)
        x = range(1, len(points) + 1)
        label, mark = f"{name} (n {len(runs)})", marker(method)
        axes.plot(x, [p.mean for p in points], line, color=colour, marker=mark, ms=4, lw=1.8, label=label)
        low, high = [max(0.0, bound(p, "low")) for p in points], [min(100.0, bound(p, "high")) for p in points]
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    if not axes.get_lines():
        return None
    axes.set(xlabel="tasks learned", ylabel="accuracy over all classes seen (%)", ylim=(0, 102))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25, lw=0.6)
    axes.legend(loc="lower left", ncols=2)
    axes.set_title(f"Accuracy after each task{_on(study)}")
    return figure


def draw_frontier(study: Beyond) -> Figure | None:
    """Final accuracy against replay batches."""
    known = _points(study)
    if not known:
        return None
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    _ways(axes, known)
    _when_axis(axes, [p for points in known.values() for p in points])
    _heights(axes)
    axes.set(xlabel="replay batches, % of those with replay in every epoch (root scale)", ylabel="final accuracy (%)")
    figure.legend(loc="outside upper center", ncols=len(known))
    _shapes(figure, known)
    if study.data is not None:
        axes.set_title(f"On {study.data}")
    return figure


def draw_small(study: Beyond) -> Figure | None:
    """The same on small benchmarks, side by side."""
    found = {small: _points(study, small) for small in SMALL}
    found = {small: known for small, known in found.items() if known}
    if not found:
        return None
    figure = Figure(figsize=(SIZE[0], 3.4), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (small, known) in zip(panels, found.items(), strict=True):
        _ways(axes, known)
        shares = {round(100 * p.batches) for points in known.values() for p in points if p.batches is not None}
        axes.set_xticks(sorted(shares), [str(share) for share in sorted(shares)])
        axes.minorticks_off()
        axes.set_xlim(*SHARES)
        _heights(axes)
        axes.set(xlabel="replay batches, % of every epoch's (root scale)", title=f"{small}{_on(study)}")
    panels[0].set_ylabel("final accuracy (%)")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, [label.partition(" (")[0] for label in labels], loc="outside upper center", ncols=len(lines))
    _shapes(figure, next(iter(found.values())))
    return figure


def _points(study: Beyond, small: str | None = None) -> dict[str, list[Point]]:
    """By method, the ways to place replay that have runs."""
    known = {method: [p for p in frontier(study, method, small) if p.batches is not None] for method in REPLAYING}
    return {method: points for method, points in known.items() if points}


def _ways(axes: Axes, known: Mapping[str, Sequence[Point]]) -> None:
    """A line for each method, through what is on it; and what stands beside it."""
    # A root: few batches are what it is about, and they need the room.
    axes.set_xscale("function", functions=(_root, _square))
    for number, (method, points) in enumerate(known.items()):
        colour, _ = style(method)
        line = sorted((p for p in points if p.when in ON_LINE), key=lambda p: p.batches or 0.0)
        n = sorted({p.n for p in points})
        label = f"{NAMES[method]} (n {n[0]})" if len(n) == 1 else f"{NAMES[method]} (n {n[0]} to {n[-1]})"
        _errors(axes, line, colour, marker(method), hollow=False, moved=2.0 * (number - 1), joined=True)
        axes.plot([], [], "-", color=colour, marker=marker(method), label=label)
        for point in points:
            if point.when in BESIDE:
                _, mark, hollow, moved = BESIDE[point.when]
                _errors(axes, [point], colour, mark, hollow=hollow, moved=moved + 2.0 * (number - 1))


def _shapes(figure: Figure, known: Mapping[str, Sequence[Point]]) -> None:
    """What the marks beside the lines mean."""
    shapes = [
        Line2D([], [], ls="", marker=mark, color="#555555", mfc="white" if hollow else "#555555", label=label)
        for when, (label, mark, hollow, _) in BESIDE.items()
        if any(p.when == when for points in known.values() for p in points)
    ]
    if shapes:
        figure.legend(handles=shapes, loc="outside lower center", ncols=3)


def _heights(axes: Axes) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), min(102.0, high))
    axes.grid(alpha=0.25, lw=0.6, axis="y")


def _root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: Any) -> Any:
    return x * abs(x)


def _errors(
    axes: Axes, points: Sequence[Point], colour: str, mark: str, *, hollow: bool, moved: float, joined: bool = False
) -> None:
    """Points with their intervals, moved aside by so many points of print."""
    figure = axes.get_figure()
    assert figure is not None
    where = axes.transData + ScaledTranslation(moved / 72, 0, figure.dpi_scale_trans)
    known = [(100 * p.batches, p.accuracy) for p in points if p.batches is not None and p.accuracy is not None]
    x, means = [share for share, _ in known], [found.mean for _, found in known]
    low = [found.mean - max(0.0, bound(found, "low")) for _, found in known]
    high = [min(100.0, bound(found, "high")) - found.mean for _, found in known]
    face, line = "white" if hollow else colour, "-" if joined else ""
    axes.errorbar(
        x,
        means,
        (low, high),
        color=colour,
        marker=mark,
        mfc=face,
        ls=line,
        lw=1.6,
        elinewidth=1,
        capsize=2,
        ms=5,
        transform=where,
    )
    axes.update_datalim([*zip(x, (m - d for m, d in zip(means, low, strict=True)), strict=True)])
    axes.update_datalim([*zip(x, (m + d for m, d in zip(means, high, strict=True)), strict=True)])
    axes.autoscale_view(scalex=False)


def _when_axis(axes: Axes, points: Sequence[Point]) -> None:
    """Each share of the batches, with what it stands for."""
    labels: dict[int, str] = {}
    for when in (*ON_LINE, *BESIDE):
        for share in sorted({round(100 * p.batches) for p in points if p.when == when and p.batches is not None}):
            labels.setdefault(share, ON_LINE.get(when, ""))
    axes.set_xticks(list(labels), [f"{share}\n{label}" for share, label in labels.items()])
    axes.minorticks_off()
    axes.set_xlim(*SHARES)


def draw_exam(study: Beyond) -> Figure | None:
    """What the memory says of classes of some test accuracy; what is honest lies on the diagonal."""
    found = {source: [honesty(study, source, method) for method in SOURCES[source][1]] for source in SOURCES}
    if not any(one.pairs for parts in found.values() for one in parts):
        return None
    figure = Figure(figsize=(SIZE[0], 3.9), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(1, len(found), sharex=True, sharey=True)
    bins = [(low, low + 10) for low in range(0, 100, 10)]
    for axes, (source, parts) in zip(panels, found.items(), strict=True):
        for one in parts:
            binned_pairs, (colour, _) = binned(one.pairs, bins), style(one.method)
            if not binned_pairs:
                continue
            x, y = [b.accuracy for b in binned_pairs], [b.recall for b in binned_pairs]
            most = max(b.pairs for b in binned_pairs)
            axes.plot(x, y, "-", color=colour, lw=1.2, alpha=0.7)
            sizes = [12 + 60 * b.pairs / most for b in binned_pairs]
            label, mark = f"{NAMES[one.method]} (n {one.n})", marker(one.method)
            axes.scatter(x, y, sizes, color=colour, marker=mark, label=label, lw=0, alpha=0.85, clip_on=False, zorder=3)
        runs = bool(axes.collections)
        axes.plot([0, 100], [0, 100], ":", color="#666666", lw=1.2, label="recall = accuracy")
        axes.set(xlabel="test accuracy of a class (%)", xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.grid(alpha=0.25, lw=0.6)
        axes.set_title(capital(SOURCES[source][0]))
        axes.legend(loc="lower right")
        if not runs:
            axes.annotate("no runs", (50, 75), ha="center", color="#666666")
    panels[0].set_ylabel("recall of that class (%)")
    if study.data is not None:
        figure.suptitle(f"On {study.data}", size=10)
    return figure


DRAWN: Mapping[str, Callable[[Beyond], Figure | None]] = {
    "accuracy": draw_accuracy,
    "frontier": draw_frontier,
    "exam": draw_exam,
    "small": draw_small,
}
CAPTIONS = {
    "accuracy": "Accuracy after each task: mean and 95 % band",
    "frontier": "Final accuracy against replay batches: mean and 95 % interval; controls hollow, beside the line",
    "exam": "Recall of a class against its test accuracy: the exam, and the paper's probe; large marks: many classes",
    "small": "Final accuracy against replay batches on two small benchmarks: mean and 95 % interval",
}


def _on(study: Beyond) -> str:
    return "" if study.data is None else f", on {study.data}"
