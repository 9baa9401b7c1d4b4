"""The three scenarios for a reader: a figure, a page with every table, and lines for a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcsr.experiments.statistics import holm
from tfcsr.files import write_bytes
from tfcsr.reporting.figures import STYLE, save
from tfcsr.reporting.pages import markdown_table, session_lines, with_interval
from tfcsr.reporting.styles import style
from tfcsr.reporting.tables import Column, FittingTable
from tfcsr.reporting.words import counted
from tfcsr.scenarios.arms import ARMS, FIGURE, NAMES, SECTIONS, SOURCE
from tfcsr.scenarios.study import Row, Scenarios

PAGE, PICTURE = "scenarios.md", "scenarios"
OUTSIDE_COLOUR = "#222222"

HEAD = (
    "EWC and SI end near 20 % in the class-incremental scenario, here as everywhere. Here they are shown where they"
    f" work, beside somebody else's code: {SOURCE}, run once or twice on a CPU. Its settings are ours: Split MNIST, a"
    " network of 784-400-400 units with ReLU, pixels from 0 to 1, Adam with a learning rate of 0.001 that is not reset,"
    " batches of 128, 2,000 steps a task. Accuracy is the plain mean over the five tasks after the last one. Seed 0"
    " takes the digits in order; every other seed has an order of its own."
)
RULE = (
    "**The rule.** An outside value is of one run. It lies *inside* when it is in the 95 % prediction interval of ours,"
    " where one more run of ours would lie with 95 % probability. One value in twenty should lie outside by chance: a"
    " difference is called one only if Holm's correction for the number of values, at 5 %, leaves it."
)
APART = (
    "**What still differs.** The other code keeps 100 images of each digit; ours does so too where digits have labels"
    " of their own, and in scenario domain shares a memory of 1,000 among what has come (100 of each of the two labels"
    " there gave 86.27 % with seed 0). Its joint training has all tasks at once for 10,000 steps; ours has 2,000 steps"
    " on all tasks so far, five times. Its last batch of a pass is dropped; ours is smaller. In scenario class its loss"
    " ranges over the classes seen so far; ours over all ten."
)
HEADER = ("method", "outside", "our mean ± 95 %", "95 % prediction interval", "inside", "against none, paired")


def write_pages(study: Scenarios, out: Path) -> list[Path]:
    """The page, its figure as PNG and SVG, and the results they follow from."""
    study.records.write(out / "results.json")
    written = []
    if any(row.values for section in study.sections for row in study.rows(section)):
        with matplotlib.rc_context(STYLE):
            figure = draw(study)
            for kind in ("png", "svg"):
                written.append(out / f"{PICTURE}.{kind}")
                save(figure, written[-1], kind)
    write_bytes(out / PAGE, page_text(study, pictured=bool(written)).encode())
    return [*written, out / PAGE]


def draw(study: Scenarios) -> Figure:
    """A panel for each section: every run a dot, the outside values crosses."""
    figure = Figure(figsize=(2.5 * len(study.sections) + 0.6, 3.3), layout="constrained")
    panels = figure.subplots(1, len(study.sections), squeeze=False)[0]
    for axes, section in zip(panels, study.sections, strict=True):
        _panel(axes, section, study.rows(section))
    panels[0].set_ylabel("final accuracy, mean over tasks (%)")
    panels[0].plot([], [], "o", color="#777777", ms=4, label="our runs")
    panels[0].plot([], [], "x", color=OUTSIDE_COLOUR, ms=6, label="outside code")
    panels[0].legend(loc="lower right")
    return figure


def _panel(axes: Axes, section: str, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        colour, values = style(row.method)[0], list(row.values.values())
        axes.plot([place - 0.12] * len(values), values, "o", color=colour, ms=4, alpha=0.8, mew=0)
        outside = ARMS[row.name].outside
        axes.plot([place + 0.16] * len(outside), outside, "x", color=OUTSIDE_COLOUR, ms=6)
    axes.set_xticks(range(len(rows)), [NAMES[row.method] for row in rows])
    axes.set(xlim=(-0.6, len(rows) - 0.4), ylim=(0, 102), title=SECTIONS[section])
    axes.grid(axis="y", alpha=0.25, lw=0.6)


def page_text(study: Scenarios, *, pictured: bool) -> str:
    lines = ["# Three scenarios, beside outside code", "", HEAD, "", *finding_lines(study), ""]
    if pictured:
        lines += [f"![Final accuracy of every run, by scenario and method]({PICTURE}.png)", ""]
    lines += [RULE, "", APART, ""]
    for section in study.sections:
        lines += [f"## {SECTIONS[section]}", "", *markdown_table(*_table(study, section)), ""]
        known = FIGURE.get(section)
        if known:
            means = ", ".join(f"{NAMES[method]} {value:g}" for method, value in known.items())
            lines += [f"A figure in the other repository shows means of 20 seeds, read by eye: {means}.", ""]
        if section == "permuted":
            lines += [
                "Ten tasks, each with the pixels of all images in an order of its own; 1,000 steps a task. There is no"
                " outside value: the question is whether EWC and SI beat plain training.",
                "",
            ]
    lines += ["## How it was run", "", *session_lines(study.records), ""]
    return "\n".join(lines)


def _table(study: Scenarios, section: str) -> tuple[Sequence[str], list[list[str]]]:
    rows = study.rows(section)
    cells = [
        [
            NAMES[row.method],
            " / ".join(f"{value:.1f}" for value in ARMS[row.name].outside) or "–",
            with_interval(row.accuracy),
            "–" if row.interval is None else f"{row.interval[0]:.1f} to {row.interval[1]:.1f}",
            _inside(row),
            "–" if row.difference is None else with_interval(row.difference, "+"),
        ]
        for row in rows
    ]
    shown = [i for i in range(len(HEADER)) if any(line[i] not in ("–", "") for line in cells) or i == 0]
    return [HEADER[i] for i in shown], [[line[i] for i in shown] for line in cells]


def _inside(row: Row) -> str:
    looks = row.looks
    if not looks or row.interval is None:
        return "–" if not looks else "open"
    words = ["yes" if look.inside else f"no (p {look.probability:.2g})" for look in looks]
    return " / ".join(words)


def finding_lines(study: Scenarios) -> list[str]:
    """What the runs say, in a sentence or two for each question."""
    looks, found = study.looks(), []
    if looks:
        inside = sum(look.inside for look in looks)
        found.append(f"{inside} of {len(looks)} outside values lie inside our prediction intervals.")
        apart = [f"{NAMES[one.name.partition('/')[2]]} in `{one.name.partition('/')[0]}`" for one in holm(looks)]
        ends = f"differ: {', '.join(dict.fromkeys(apart))}." if apart else "differs."
        which = "these" if apart else "none"
        found.append(f"With all {counted(len(looks), 'look')} counted (Holm, 5 %), {which} {ends}")
    if "permuted" in study.sections:
        for row in study.rows("permuted"):
            if row.difference is not None:
                low = row.difference.low
                verdict = "beats" if low is not None and low > 0 else "does not clearly beat"
                by = with_interval(row.difference, "+", " points")
                found.append(f"On Permuted MNIST, {NAMES[row.method]} {verdict} plain training: {by}.")
    return found


def tables(study: Scenarios) -> Iterable[FittingTable]:
    """For a terminal."""
    for section in study.sections:
        header, rows = _table(study, section)
        columns = [
            Column(title, [row[i] for row in rows], leading=i == 0, text=i == 0) for i, title in enumerate(header)
        ]
        yield FittingTable(SECTIONS[section], columns)


def outcome_lines(study: Scenarios, pages: Sequence[Path]) -> Iterable[str]:
    """For a terminal: what is left to run, what was found, and where to look."""
    if missing := len(study.missing()):
        yield f"still to run: {counted(missing, 'run')}; the same command goes on"
    yield from finding_lines(study)
    yield str(pages[-1])
