"""The reproduction for a reader: figures in the paper's form, a page with every table, and lines for a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import optional_estimate
from tfcsr.files import write_bytes
from tfcsr.paper.audit import Finding, audit, spread
from tfcsr.paper.claims import claims
from tfcsr.paper.published import METHODS, PUBLISHED, SUMMARY, TARGETS, Target
from tfcsr.paper.reproduction import Curve, Line, Reproduction, arms_of, verdict
from tfcsr.reporting.figures import MARKS, STYLE, save
from tfcsr.reporting.pages import bound, markdown_table, session_lines
from tfcsr.reporting.progress import clock
from tfcsr.reporting.styles import style

PAGE = "reproduction.md"

# By what the paper calls the method; capacities and thresholds go from light to dark.
COLOURS = {label: style(method)[0] for label, method in METHODS.items()}
RULE = (
    "**The rule.** A published number is of one run. It is *consistent* when it lies in the 95 % prediction interval of"
    " ours, where one more run of ours would lie with 95 % probability: mean ± t · s · √(1 + 1/n), with Student's t for"
    " n − 1 degrees of freedom. It is *not consistent* when it lies outside, and *open* where there are fewer than two"
    " runs. `± x` is half the 95 % confidence interval of the mean. Runs that collapsed (one answer to every image) are"
    " in the means, and counted."
)
QUANTITIES = {
    "final_accuracy": "final accuracy %",
    "memory_checks": "memory checks",
    "replay_batches": "replay batches",
    "epochs": "epochs",
}


def write_pages(study: Reproduction, out: Path) -> list[Path]:
    """Every figure as PNG and SVG, the page, and the results they follow from; of the targets asked for and of all
    others that have any run.
    """
    study.records.write(out / "results.json")
    shown = [name for name in (*TARGETS, "audit") if name in study.targets or _any_run(study, name)]
    written = []
    for name in shown:
        with matplotlib.rc_context(STYLE):
            if name != "audit" and (figure := draw(study, TARGETS[name])) is not None:
                for kind in ("png", "svg"):
                    written.append(out / f"{name}.{kind}")
                    save(figure, written[-1], kind)
    page = out / PAGE
    write_bytes(page, page_text(study, shown).encode())
    return [*written, page]


def _any_run(study: Reproduction, name: str) -> bool:
    own = set(arms_of([name])) - (set(arms_of(TARGETS)) if name == "audit" else set())
    return any(study.of(arm) for arm in own)


def draw(study: Reproduction, target: Target) -> Figure | None:
    if target.kind not in ("curves", "capacity"):
        return None
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25, lw=0.6)
    if target.kind == "curves":
        draw_curves(axes, study.curves(target))
    else:
        draw_capacities(axes, study.lines(target), target)
    axes.set_ylim(0, min(102.0, axes.get_ylim()[1]))
    axes.set_title(target.title if study.data is None else f"{target.title}, on {study.data}", size=11)
    return figure


def draw_curves(axes: Axes, curves: Sequence[Curve]) -> None:
    tasks = 0
    drawn: list[list[list[float]]] = []
    shades = [curve.row.label for curve in curves if curve.row.label not in COLOURS]
    for number, curve in enumerate(curves):
        colour = COLOURS.get(curve.row.label) or _shade(shades.index(curve.row.label), len(shades))
        marker = MARKS[number % len(MARKS)]
        if curve.runs:
            points = curve.points
            x = range(1, len(points) + 1)
            label = f"{curve.row.label} (n {len(curve.runs)})"
            # Thresholds share their runs: thick below thin, and one band, so that each can still be seen.
            width = (
                1.6 + 0.9 * (len(curves) - number - 1) if curve.runs in [c.runs for c in curves[number + 1 :]] else 1.6
            )
            axes.plot(x, [p.mean for p in points], "-", color=colour, marker=marker, ms=4, lw=width, label=label)
            if curve.runs not in drawn:
                low, high = [bound(p, "low") for p in points], [bound(p, "high") for p in points]
                axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
            drawn.append(curve.runs)
            tasks = max(tasks, len(points))
        if curve.published is not None:
            x = range(1, len(curve.published) + 1)
            alone = None if curve.runs else f"{curve.row.label} (no runs)"
            axes.plot(x, curve.published, "--", color=colour, lw=1.2, alpha=0.9, label=alone)
            tasks = max(tasks, len(curve.published))
    _published_entry(axes, any(curve.published is not None for curve in curves))
    axes.set(
        xlabel="Number of tasks learned", ylabel="Average accuracy on all seen tasks (%)", xticks=range(1, tasks + 1)
    )
    if axes.get_legend_handles_labels()[1]:
        axes.legend()


def _shade(number: int, of: int) -> str:
    share = 0.15 + 0.7 * number / max(1, of - 1)
    colour: str = matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](share))
    return colour


def _published_entry(axes: Axes, shown: bool) -> None:
    if shown:
        axes.plot([], [], "--", color="#333333", lw=1.2, label="published (one run)")


def draw_capacities(axes: Axes, lines: Sequence[Line], target: Target) -> None:
    places = {row.label: (row.series, row.x) for row in target.rows}
    ticks = sorted({x for _, x in places.values() if x is not None})
    any_published = False
    for number, series in enumerate(dict.fromkeys(series for series, _ in places.values())):
        own = [line for line in lines if places.get(line.label, (None, None))[0] == series]
        colour = COLOURS[str(series)]
        known = [(places[line.label][1], line.estimate) for line in own if line.estimate is not None]
        if known:
            x = [float(place or 0) * (1 + 0.015 * number) for place, _ in known]  # side by side where they coincide
            halves = [point.half_width or 0.0 for _, point in known]
            seeds = sorted({point.n for _, point in known})
            n = f"n {seeds[0]}" if len(seeds) == 1 else f"n {seeds[0]} to {seeds[-1]}"
            means = [point.mean for _, point in known]
            axes.errorbar(
                x, means, halves, color=colour, marker=MARKS[number], capsize=3, label=f"{series} ({n})", lw=1.6
            )
        published = [(float(places[line.label][1] or 0), line.published) for line in own if line.published is not None]
        if published:
            any_published = True
            axes.plot([x for x, _ in published], [y for _, y in published], "--", color=colour, lw=1.2)
    _published_entry(axes, any_published)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="Buffer capacity (log scale)", ylabel="Final average accuracy (%)")
    if axes.get_legend_handles_labels()[1]:
        axes.legend()


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


LINE_HEADER = ("", "quantity", "published", "our mean", "s", "95 % interval", "n", "verdict")


def target_lines(study: Reproduction, name: str) -> list[str]:
    """One target's part of the page, without its heading."""
    target = TARGETS[name]
    if target.kind == "choices":
        return choice_lines(study, target)
    lines = markdown_table(LINE_HEADER, map(line_cells, study.lines(target)))
    if target.kind == "curves":
        inside = [(c.row.label, c.inside, len(c.published or ())) for c in study.curves(target)]
        known = [f"{label} {count} of {of}" for label, count, of in inside if count is not None]
        if known:
            lines += ["", f"Published points of the curves inside our prediction intervals: {'; '.join(known)}."]
    return lines


def choice_lines(study: Reproduction, target: Target) -> list[str]:
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
        rows.append((grid.benchmark, grid.method, f"{grid.published:g}", ours, tested, n, judged))
    header = ("benchmark", "method", "published λ", "best by test", "final accuracy % by λ", "n", "verdict")
    return [
        *markdown_table(header, rows),
        "",
        "Trained on 90 % of the training data, so that the audit can make the same choice on the rest. The table's"
        " other settings, buffer capacity 200 and 1,000 and mastery threshold 95 and 10, are those of its runs; tables"
        " 2 and A.1 vary them.",
    ]


def page_text(study: Reproduction, shown: Sequence[str]) -> str:
    lines = ["# The paper, again", ""]
    lines += ["Made by `tfcsr reproduce`; every number below follows from `results.json` beside this page."]
    if study.data is not None:
        lines += ["", f"Run on `{study.data}` instead of the paper's data: there is nothing published to compare with."]
    else:
        lines += ["", *summary_lines(study), "", *claim_lines(study)]
    lines += ["", RULE, ""]
    lines += [
        "ER and TFC-SR with one seed are the same training run, whatever the schedule of the probe (audit, question 1),"
        " so they were trained once, with a probe after every epoch, and each schedule's checks are read off that run."
    ]
    for name in shown:
        if name == "audit":
            lines += ["", "## Audit"]
            for number, finding in enumerate(audit(study), start=1):
                lines += finding_lines(number, finding)
            continue
        target = TARGETS[name]
        lines += ["", f"## {target.title}", ""]
        if target.kind in ("curves", "capacity"):
            lines += [f"![{target.title}: our mean with its 95 % band, published values dashed]({name}.svg)", ""]
        lines += target_lines(study, name)
    lines += ["", "## How it was made", "", *session_lines(study.records), *cost_lines(study)]
    return "\n".join(lines) + "\n"


def finding_lines(number: int, finding: Finding) -> list[str]:
    lines = ["", f"### {number}. {finding.title}", ""]
    if not finding.said:
        return [*lines, "Not enough runs yet."]
    return [*lines, *(f"- {sentence}" for sentence in finding.said), "", *markdown_table(finding.header, finding.rows)]


def cost_lines(study: Reproduction) -> list[str]:
    """Device time of a seed: all sessions on a kind of card, by the runs they finished."""
    by_gpu: dict[str, list[tuple[int, float]]] = {}
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
    rows = []
    for row in SUMMARY:
        published, runs = PUBLISHED[row.published].curve[-1], study.of(row.arm)
        judged = verdict(published, [record.final_accuracy for record in runs.values()])
        cells = (row.benchmark, row.label, f"{published:.2f}", _mean(runs), judged, _mean(study.of(row.alike)))
        rows.append(cells)
    header = ("benchmark", "method", "published %", "ours, run as published % (n)", "verdict", "ours, all alike % (n)")
    return markdown_table(header, rows)


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
    """For a terminal: the verdicts in number, what is left to run, and where to look."""
    lines = [line for name in study.targets if name != "audit" for line in study.lines(TARGETS[name])]
    judged = Counter(line.verdict.partition(":")[0] for line in lines if line.published is not None)
    if judged:
        yield "published values: " + ", ".join(f"{count} {word}" for word, count in sorted(judged.items()))
    if missing := len(study.missing()):
        yield f"{missing} runs have yet to be made: the same command goes on"
    figures = len([page for page in pages if page.suffix != ".md"])
    yield f"{pages[-1]}" + (f", {figures} figure files beside it" if figures else "")
