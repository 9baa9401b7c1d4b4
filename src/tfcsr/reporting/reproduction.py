"""The reproduction for a reader: figures in the paper's form, a page with every table, and lines for a terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import FEWEST, optional_estimate
from tfcsr.files import write_bytes
from tfcsr.paper.audit import Finding, audit, spread
from tfcsr.paper.claims import claims
from tfcsr.paper.published import GROUPS, PUBLISHED, SUMMARY, TARGETS, Row, Target
from tfcsr.paper.reproduction import Curve, Line, Reproduction, arms_of, augmented, is_read_off, method_of, verdict
from tfcsr.reporting.figures import STYLE, save
from tfcsr.reporting.pages import bound, markdown_table, session_lines
from tfcsr.reporting.progress import clock
from tfcsr.reporting.styles import marker, style
from tfcsr.reporting.tables import Column, FittingTable
from tfcsr.reporting.words import counted, no_interval

PAGE = "reproduction.md"
MOST_TOGETHER = 6  # curves in one panel; more are small panels, so many beside each other
COLUMNS = 3
GREY = "#C8C8C8"

COLLAPSED = "Runs that collapsed (one answer to every image) are in the means, and counted."
RULE = (
    "**The rule.** A published number is of one run. It is *consistent* when it lies in the 95 % prediction interval of"
    " ours, where one more run of ours would lie with 95 % probability: mean ± t · s · √(1 + 1/n), with Student's t for"
    " n − 1 degrees of freedom. It is *not consistent* when it lies outside, and *open* where there are fewer than two"
    " runs. `± x` is half the 95 % confidence interval of the mean."
    f" {COLLAPSED}"
)
QUANTITIES = {
    "final_accuracy": "final accuracy %",
    "memory_checks": "memory checks",
    "replay_batches": "replay batches",
    "epochs": "epochs",
}


SHORT = {"final_accuracy": "accuracy %", "memory_checks": "checks", "replay_batches": "replays", "epochs": "epochs"}


def write_pages(study: Reproduction, out: Path) -> list[Path]:
    """The page of the targets asked for, their figures as PNG and SVG, and the results they follow from."""
    study.records.write(out / "results.json")
    written = []
    for name in study.targets:
        with matplotlib.rc_context(STYLE):
            if name != "audit" and (figure := draw(study, TARGETS[name])) is not None:
                for kind in ("png", "svg"):
                    written.append(out / f"{name}.{kind}")
                    save(figure, written[-1], kind)
    page = out / PAGE
    write_bytes(page, page_text(study).encode())
    return [*written, page]


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


LINE_HEADER = ("", "quantity", "published", "our mean", "s", "95 % interval", "n", "verdict")
OF_THE_PAPER = ("published", "verdict")  # there is none on other data


def line_cells(line: Line) -> tuple[str, ...]:
    """Label, quantity, published, mean, deviation, interval, n, verdict."""
    decimals = 2 if line.quantity == "final_accuracy" else 1
    found = line.estimate

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.{decimals}f}"

    interval = "–" if found is None or found.low is None else f"{number(found.low)} to {number(found.high)}"
    died = f", {line.collapsed} collapsed" if line.collapsed else ""
    return (
        line.label,
        QUANTITIES[line.quantity],
        number(line.published).removesuffix(".0"),
        number(None if found is None else found.mean),
        number(line.deviation),
        interval,
        f"{len(line.runs)}{died}",
        line.verdict or "–",
    )


def line_columns(study: Reproduction, target: Target) -> dict[str, list[str]]:
    """A target's table, column by column."""
    rows = [line_cells(line) for line in study.lines(target)]
    return {
        title: [row[place] for row in rows]
        for place, title in enumerate(LINE_HEADER)
        if study.data is None or title not in OF_THE_PAPER
    }


def target_lines(study: Reproduction, name: str) -> list[str]:
    """One target's part of the page, without its heading."""
    target = TARGETS[name]
    if target.kind == "choices":
        return choice_lines(study, target)
    columns = line_columns(study, target)
    lines = markdown_table(tuple(columns), zip(*columns.values(), strict=True))
    if target.kind == "curves":
        inside = [(c.row.label, c.inside, len(c.published or ())) for c in study.curves(target)]
        known = [f"{label} {count} of {of}" for label, count, of in inside if count is not None]
        if known:
            lines += ["", f"Published points of the curves inside our prediction intervals: {'; '.join(known)}."]
    return lines


def tables(study: Reproduction) -> Iterable[FittingTable]:
    """For a terminal: the table of each target asked for; of all of them together, the main one."""
    if study.whole and study.data is None:
        yield _table("The paper, again", *summary_cells(study))
        return
    for name in study.targets:
        if name != "audit":
            target = TARGETS[name]
            choices = target.kind == "choices"
            yield _table(study.title(target), *choice_cells(study, target)) if choices else _lines_table(study, target)


def _table(title: str, header: Sequence[str], *rows: Sequence[str]) -> FittingTable:
    """The first two columns say what a row is."""
    ranks = {"final accuracy % by λ": 1}
    columns = [
        Column(heading, [row[i] for row in rows], rank=ranks.get(heading), leading=i < 2, text=i < 2)
        for i, heading in enumerate(header)
    ]
    return FittingTable(title, columns)


def _lines_table(study: Reproduction, target: Target) -> FittingTable:
    """A target's lines; what they are of is said once where it is one thing."""
    lines = study.lines(target)
    cells = [line_cells(line) for line in lines]
    shown = list(dict.fromkeys(line.quantity for line in lines))
    columns = [Column("", [row[0] for row in cells], leading=True, text=True)]
    if len(shown) > 1:
        columns.append(Column("quantity", [SHORT[line.quantity] for line in lines], leading=True, text=True))
    ours = [
        row[3] + ("" if line.estimate is None or line.estimate.half_width is None else f" ±{_half(line)}")
        for line, row in zip(lines, cells, strict=True)
    ]
    unit = " %" if shown == ["final_accuracy"] else ""
    interval = any("±" in cell for cell in ours)
    columns += [
        Column(f"published{unit}", [row[2] for row in cells]),
        Column(f"ours{unit}" + (" ± 95 %" if interval else ""), ours),
        Column("n", [row[6] for row in cells]),
        Column("verdict", [row[7] for row in cells], text=True),
    ]
    if study.data is not None:
        columns = [column for column in columns if not column.title.startswith(OF_THE_PAPER)]
    title = study.title(target)
    if unit and "accuracy" not in title:
        title += ", final accuracy"
    few = sorted({len(line.runs) for line in lines if line.runs})
    return FittingTable(title, columns, [] if interval or not few else [", ".join(map(no_interval, few)), ""])


def _half(line: Line) -> str:
    found = line.estimate
    half = 0.0 if found is None or found.half_width is None else found.half_width
    return f"{half:.2f}" if line.quantity == "final_accuracy" else f"{half:.1f}"


def choice_cells(study: Reproduction, target: Target) -> list[tuple[str, ...]]:
    """The header, and a row per setting."""
    rows = []
    for choice in study.choices(target.grids):
        grid = choice.grid
        ours = f"{choice.by_test:g}" if choice.complete else "–"
        judged = "open: no runs"
        if choice.complete:
            judged = "the same" if choice.by_test == grid.published else "another"
        tested = ", ".join(
            f"{value:g}: {choice.test_accuracy(value):.2f}" if choice.runs[value] else f"{value:g}: –"
            for value in grid.values
        )
        n = str(min(map(len, choice.runs.values())))
        where = grid.benchmark if study.data is None else f"{grid.benchmark.removeprefix('split-')} values"
        rows.append((where, grid.method, f"{grid.published:g}", ours, tested, n, judged))
    header = ("benchmark", "method", "published λ", "best by test", "final accuracy % by λ", "n", "verdict")
    if study.data is None:
        return [header, *rows]
    return [(*row[:2], *row[3:-1]) for row in (header, *rows)]


def choice_lines(study: Reproduction, target: Target) -> list[str]:
    header, *rows = choice_cells(study, target)
    return [
        *markdown_table(header, rows),
        "",
        "Trained on 90 % of the training data, so that the audit can make the same choice on the rest. The table's"
        " other settings, buffer capacity 200 and 1,000 and mastery threshold 95 and 10, are those of its runs; tables"
        " 2 and A.1 vary them.",
    ]


def page_text(study: Reproduction) -> str:
    """What was asked for, and nothing else; the main table and what it amounts to where that was everything."""
    lines = ["# The paper, again", ""]
    lines += ["Made by `tfcsr reproduce`; every number below follows from `results.json` beside this page."]
    if study.data is not None:
        lines += ["", f"Run on `{study.data}` instead of the paper's data: there is nothing published to compare with."]
    elif study.whole:
        lines += ["", *summary_lines(study), "", *claim_lines(study)]
    lines += ["", RULE if study.data is None else COLLAPSED]
    if any(is_read_off(arm) for arm in arms_of(study.targets)):
        where = "audit" if "audit" in study.targets else "`tfcsr reproduce audit`"
        lines += [
            "",
            f"ER and TFC-SR with one seed are the same training run, whatever the schedule of the probe ({where},"
            " question 1), so they were trained once, with a probe after every epoch, and each schedule's checks are"
            " read off that run.",
        ]
    for name in study.targets:
        if name == "audit":
            lines += ["", "## Audit"]
            for number, finding in enumerate(audit(study), start=1):
                lines += finding_lines(study, number, finding)
            continue
        target, title = TARGETS[name], study.title(TARGETS[name])
        lines += ["", f"## {title}", ""]
        if target.kind in ("curves", "capacity"):
            dashed = ", published values dashed" if study.data is None else ""
            lines += [f"![{title}: our mean with its 95 % band{dashed}]({name}.svg)", ""]
        lines += target_lines(study, name)
    lines += ["", "## How it was made", "", *session_lines(study.records), *cost_lines(study)]
    return "\n".join(lines) + "\n"


def finding_lines(study: Reproduction, number: int, finding: Finding) -> list[str]:
    lines = ["", f"### {number}. {finding.title}", ""]
    if not finding.said:
        return [study.on_its_data(line) for line in (*lines, "Not enough runs yet.")]
    lines += [*(f"- {sentence}" for sentence in finding.said), "", *markdown_table(finding.header, finding.rows)]
    return [study.on_its_data(line) for line in lines]


def cost_lines(study: Reproduction) -> list[str]:
    """Device time of a seed: all sessions on a kind of card, by the runs they finished."""
    by_gpu: dict[str, list[tuple[int, float]]] = {}
    if not set(GROUPS["cifar"]) <= set(study.targets):
        return []
    for session in study.records.sessions:
        if session["machine"].get("gpu"):
            by_gpu.setdefault(session["machine"]["gpu"], []).append((session["runs"], session["seconds"]))
    lines = []
    for gpu, sessions in by_gpu.items():
        runs, spent = sum(r for r, _ in sessions), sum(s for _, s in sessions)
        need = len(Reproduction(["cifar"], [0], None, study.records).plan())
        per_run = spent / runs
        lines += [
            "",
            f"{gpu}: {per_run:.1f} s a run ({runs} runs in {clock(spent)}, compiling included), so the {need} runs that"
            f" a seed of the CIFAR-100 tables and figures takes need {clock(per_run * need)}.",
        ]
    return lines


def summary_lines(study: Reproduction) -> list[str]:
    """The main table: what was published, ours run in the same way, and ours with every method treated alike."""
    header, *rows = summary_cells(study)
    return markdown_table(header, rows)


def summary_cells(study: Reproduction) -> list[tuple[str, ...]]:
    """Its header, and a row per method."""
    rows = []
    for row in SUMMARY:
        published, runs = PUBLISHED[row.published].curve[-1], study.of(row.arm)
        judged = verdict(published, [record.final_accuracy for record in runs.values()])
        cells = (row.benchmark, row.label, f"{published:.2f}", _mean(runs), judged, _mean(study.of(row.alike)))
        rows.append(cells)
    header = ("benchmark", "method", "published %", "ours, run as published % (n)", "verdict", "ours, all alike % (n)")
    return [header, *rows]


def _mean(runs: dict[int, Record]) -> str:
    mean = optional_estimate(record.final_accuracy for record in runs.values())
    died = sum(record.collapsed is not None for record in runs.values())
    return "–" if mean is None else f"{spread(mean)} ({len(runs)}{f', {died} collapsed' if died else ''})"


def claim_lines(study: Reproduction) -> list[str]:
    """What the verdicts amount to, with what they could not have shown."""
    found = claims(study)
    judged, points = found.judged, found.judged_points
    if not judged:
        return []
    inside, fixed = sum(c.verdict == "consistent" for c in judged), len(found.values) - len(judged)
    lines = [
        f"- The paper's tables and figures hold {len(found.values)} different final values and counts, many of them"
        f" several times. {fixed} are counts that are the same in every run of ours, and test nothing. Of the other"
        f" {len(judged)}, {inside} lie in our prediction intervals."
    ]
    if (noticed := found.smallest_noticeable()) is not None:
        least, middle, most = noticed
        n = max(len(c.values) for c in judged)
        lines += [
            f"- Little could have failed: with n {n} a prediction interval reaches three standard deviations to each"
            f" side. A true difference in final accuracy is noticed with probability 0.8 from {middle:.1f} points on"
            f" (median; {least:.1f} to {most:.1f}, the largest on Split MNIST, where runs scatter most)."
        ]
    if points:
        good = sum(c.verdict == "consistent" for c in points)
        lines += [
            f"- Of the {len(points)} other points of its curves {good} lie inside; of independent points"
            f" {0.95 * len(points):.0f} would."
        ]
    looks = f"- With all {len(judged) + len(points)} looks counted (Holm, 5 %)"
    different = [
        f"{c.label} ({c.published:.2f} published, {min(c.values):.2f} to {max(c.values):.2f} in ours)"
        for c in found.surviving()
    ]
    lines += [f"{looks}, these differ: {'; '.join(different)}." if different else f"{looks}, nothing differs."]
    lines += [
        "- Which CIFAR-100 rows were run without augmentation was inferred from these very numbers (audit, question 4)."
        " For them this is a fit, not a test; the audit names the rows that fit neither."
    ]
    return lines


def outcome_lines(study: Reproduction, pages: Sequence[Path]) -> Iterable[str]:
    """For a terminal: the audit's answers, the verdicts in number, what is left to run, and where to look."""
    if study.targets == ["audit"]:
        for number, finding in enumerate(audit(study), start=1):
            said = finding.said or ["Not enough runs yet."]
            yield study.on_its_data(f"{number}. {finding.title} {' '.join(said)}")
    if study.whole and study.data is None:
        yield from claim_lines(study)
    else:
        lines = [line for name in study.targets if name != "audit" for line in study.lines(TARGETS[name])]
        judged = Counter(line.verdict.partition(":")[0] for line in lines if line.published is not None)
        if judged:
            yield "published values: " + ", ".join(f"{count} {word}" for word, count in sorted(judged.items()))
    if missing := len(study.missing()):
        yield f"{counted(missing, 'run')} still to be made: the same command goes on"
    figures = len([page for page in pages if page.suffix != ".md"])
    yield f"{pages[-1]}" + (f", {counted(figures, 'figure file')} beside it" if figures else "")
