"""The figures in the paper's form: our mean and its band, and what was published dashed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcsr.experiments.statistics import FEWEST
from tfcsr.paper.published import Row, Target
from tfcsr.paper.reproduction import Curve, Line, Reproduction, augmented, method_of
from tfcsr.reporting.pages import bound
from tfcsr.reporting.styles import marker, style
from tfcsr.reporting.words import no_interval

MOST_TOGETHER = 6  # curves in one panel; more are small panels, so many beside each other
COLUMNS = 3
GREY = "#C8C8C8"


def draw(study: Reproduction, target: Target) -> Figure | None:
    if target.kind not in ("curves", "capacity"):
        return None
    if target.kind == "curves" and len(target.rows) > MOST_TOGETHER:
        return draw_panels(study.curves(target), study.title(target))
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25, lw=0.6)
    if target.kind == "curves":
        draw_curves(axes, study.curves(target))
    else:
        draw_capacities(axes, study, target)
    axes.set_ylim(0, min(102.0, axes.get_ylim()[1]))
    axes.set_title(study.title(target), size=11)
    return figure


@dataclass(frozen=True)
class Look:
    """How a row is drawn: as its method is everywhere. Rows of one method differ in shade and size, and those without
    augmentation, where others have it, are hollow.
    """

    colour: str
    marker: str
    size: float
    hollow: bool

    def settings(self) -> dict[str, Any]:
        face = "white" if self.hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "ms": self.size, "mfc": face, "mew": 1.2}


def looks(rows: Sequence[Row], *, shaded: bool = True) -> list[Look]:
    """Of rows that are drawn beside each other."""
    mixed = len({augmented(row.arm) for row in rows}) > 1
    found = []
    for row in rows:
        method = method_of(row.arm)
        like = [other for other in rows if method_of(other.arm) == method]
        share = like.index(row) / (len(like) - 1) if shaded and len(like) > 1 else None
        colour = style(method)[0] if share is None else _shade(style(method)[0], share)
        size = 4.5 if share is None else 3.5 + 3 * share
        found.append(Look(colour, marker(method), size, mixed and not augmented(row.arm)))
    return found


def _shade(colour: str, share: float) -> str:
    """From light to dark, so that it can be told apart in grey print, too."""
    towards, part = (1.0, 0.6 * (1 - 2 * share)) if share < 0.5 else (0.0, 0.6 * (2 * share - 1))
    red, green, blue = (part * towards + (1 - part) * value for value in matplotlib.colors.to_rgb(colour))
    mixed: str = matplotlib.colors.to_hex((red, green, blue))
    return mixed


def draw_curves(axes: Axes, curves: Sequence[Curve]) -> None:
    rows = [curve.row for curve in curves]
    for curve, look in zip(curves, looks(rows), strict=True):
        label = f"{curve.row.label} (n {len(curve.runs)})" if curve.runs else f"{curve.row.label} (no runs)"
        _draw_curve(axes, curve, look, label)
    _entries(axes, published=any(curve.published is not None for curve in curves), rows=rows)
    axes.set(xlabel="Number of tasks learned", ylabel="Average accuracy on all seen tasks (%)", xticks=_tasks(curves))
    if axes.get_legend_handles_labels()[1]:
        axes.legend()


def _draw_curve(axes: Axes, curve: Curve, look: Look, label: str | None, published: str | None = None) -> None:
    """Ours with its band, and what was published, dashed, in a colour of its own where it is alone."""
    if curve.runs:
        points = curve.points
        x = range(1, len(points) + 1)
        axes.plot(x, [p.mean for p in points], "-", lw=1.6, label=label, **look.settings())
        low, high = [max(0.0, bound(p, "low")) for p in points], [min(100.0, bound(p, "high")) for p in points]
        axes.fill_between(x, low, high, color=look.colour, alpha=0.15, lw=0)
    if curve.published is not None:
        x = range(1, len(curve.published) + 1)
        alone = None if curve.runs else label
        axes.plot(x, curve.published, "--", color=published or look.colour, lw=1.2, alpha=0.9, label=alone)


def _tasks(curves: Sequence[Curve]) -> range:
    lengths = [len(curve.published or ()) for curve in curves] + [len(run) for c in curves for run in c.runs]
    return range(1, max(lengths, default=0) + 1)


def draw_panels(curves: Sequence[Curve], title: str) -> Figure:
    """A small panel for each, the others in grey behind it, and the legend in the last place: lines that lie on top of
    each other cannot be told apart in one.
    """
    height = -(-(len(curves) + 1) // COLUMNS)
    figure = Figure(figsize=(7.2, 1.95 * height + 0.6), layout="constrained")
    places = figure.subplots(height, COLUMNS, sharex=True, sharey=True, squeeze=False).flatten().tolist()
    rows, last = [curve.row for curve in curves], places[-1]
    for axes, curve, look in zip(places, curves, looks(rows, shaded=False), strict=False):
        for other in curves:
            means = [[point.mean for point in other.points]] if other.runs else []
            for y in (*means, *([other.published] if other.published is not None else [])):
                axes.plot(range(1, len(y) + 1), y, "-", color=GREY, lw=0.8, zorder=1)
        _draw_curve(axes, curve, replace(look, size=3.5), None, published="#222222")
        ends = f"ours {curve.points[-1].mean:.2f}" if curve.runs else "no runs"
        if curve.published is not None:
            ends += f", published {curve.published[-1]:.2f}"
        axes.set_title(f"{curve.row.label}\n{ends}", size=8.5)
        axes.grid(alpha=0.25, lw=0.6)
    ticks = _tasks(curves)
    places[0].set(ylim=(0, min(102.0, places[0].get_ylim()[1])), xticks=ticks[:: 1 + (len(ticks) > 6)])
    for axes in places[len(curves) :]:
        axes.set_axis_off()
    for number in range(len(curves) - COLUMNS, len(curves)):  # the lowest of each column has the numbers
        places[number].xaxis.set_tick_params(labelbottom=True)
    seeds = sorted({len(curve.runs) for curve in curves if curve.runs})
    if seeds:
        n = f"n {seeds[0]}" if len(seeds) == 1 else f"n {seeds[0]} to {seeds[-1]}"
        what = f"ours ({n}), 95 % band" if seeds[-1] >= FEWEST else f"ours ({no_interval(seeds[-1])})"
        last.plot([], [], "-", color="#333333", marker="o", ms=4.5, label=what)
    _entries(last, published=any(curve.published is not None for curve in curves), rows=rows)
    last.plot([], [], "-", color=GREY, lw=0.8, label="the other panels")
    shared = any(curve.runs and curve.runs == other.runs for curve in curves for other in curves if other is not curve)
    note = "Where ours are alike, one training\nserves all: only its checks differ." if shared else None
    last.legend(loc="upper left", title=note, title_fontsize=8, alignment="left", borderaxespad=0)
    figure.supxlabel("Number of tasks learned", size=9)
    figure.supylabel("Average accuracy on all seen tasks (%)", size=9)
    figure.suptitle(title, size=11)
    return figure


def _entries(axes: Axes, *, published: bool, rows: Sequence[Row]) -> None:
    """What a legend says of dashes and of hollow markers."""
    if published:
        axes.plot([], [], "--", color="#333333", lw=1.2, label="published (one run)")
    if any(look.hollow for look in looks(rows)):
        axes.plot([], [], "o", color="#333333", mfc="white", ms=5, label="hollow: without augmentation")


def draw_capacities(axes: Axes, study: Reproduction, target: Target) -> None:
    rows = study.rows(target)
    lines = {line.arm: line for line in study.lines(target)}
    for number, series in enumerate(dict.fromkeys(row.series for row in rows)):
        own = [row for row in rows if row.series == series]
        plain = replace(looks(rows, shaded=False)[rows.index(own[0])], hollow=False)
        known = [(row, found) for row in own if (found := lines[row.arm].estimate) is not None]
        if known:
            x = [float(row.x or 0) * (1 + 0.04 * number) for row, _ in known]  # side by side where they coincide
            seeds = sorted({point.n for _, point in known})
            n = f"n {seeds[0]}" if len(seeds) == 1 else f"n {seeds[0]} to {seeds[-1]}"
            means = [point.mean for _, point in known]
            below = [mean - max(0.0, bound(point, "low")) for mean, (_, point) in zip(means, known, strict=True)]
            above = [min(100.0, bound(point, "high")) - mean for mean, (_, point) in zip(means, known, strict=True)]
            label = f"{series} ({n})"
            axes.errorbar(x, means, [below, above], capsize=3, label=label, lw=1.6, **plain.settings())
            for (row, point), place in zip(known, x, strict=True):
                if looks(rows)[rows.index(row)].hollow:
                    _mark_unaugmented(axes, row, place, point.mean, plain, lines)
        published = [(float(row.x or 0), v) for row in own if (v := lines[row.arm].published) is not None]
        axes.plot([x for x, _ in published], [y for _, y in published], "--", color=plain.colour, lw=1.2)
    _entries(axes, published=any(lines[row.arm].published is not None for row in rows), rows=rows)
    axes.set_xscale("log")
    ticks = sorted({row.x for row in rows if row.x is not None})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="Buffer capacity (log scale)", ylabel="Final average accuracy (%)")
    if axes.get_legend_handles_labels()[1]:
        axes.legend()


def _mark_unaugmented(axes: Axes, row: Row, x: float, mean: float, look: Look, lines: Mapping[str, Line]) -> None:
    """Hollow, with what the same row came to with augmentation, where that is known."""
    axes.plot([x], [mean], look.marker, color=look.colour, mfc="white", mew=1.4, ms=look.size + 1.5, zorder=3)
    alike = next((lines[arm] for arm in lines if arm == row.arm.replace("/plain", "/augmented")), None)
    known = None if alike is None else alike.estimate
    text = "without augmentation" + ("" if known is None else f";\nwith it {known.mean:.2f} %")
    axes.annotate(text, (x, mean), xytext=(0, -8), textcoords="offset points", ha="center", va="top", size=8)
