"""Pictures of results: `python -m tfcsr.reporting.figures RESULTS PICTURE` draws a comparison's folder."""

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfcsr.errors import OutputError, printable
from tfcsr.experiments.folder import read_results
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import estimate

# Okabe and Ito's colours, which colour-blind readers can tell apart, and a line style each for print.
STYLES = {
    "joint": ("#000000", ":"),
    "er": ("#0072B2", "-"),
    "tfcsr": ("#D55E00", "--"),
    "tfcsr-spaced": ("#E69F00", "-."),
    "mgp": ("#009E73", "-"),
    "ewc": ("#CC79A7", "--"),
    "si": ("#56B4E9", "-."),
    "finetune": ("#666666", "-"),
}


def _plain(name: str) -> str:
    """A name from a file as it is: a dollar sign would begin a formula."""
    return printable(name).replace("$", r"\$")


def learning_curves(axes: Axes, results: Sequence[Result]) -> None:
    """Accuracy over all classes seen, after each task: the mean of each method with its 95 % interval."""
    by_method: dict[str, list[Result]] = {}
    for result in results:
        by_method.setdefault(result.spec["method"], []).append(result)
    for method, runs in sorted(by_method.items(), key=lambda item: -estimate([r.final_accuracy for r in item[1]]).mean):
        points = [estimate(values) for values in zip(*(r.accuracy_after_task for r in runs), strict=True)]
        tasks = range(1, len(points) + 1)
        colour, line = STYLES.get(method, ("#888888", "-"))
        axes.plot(tasks, [p.mean for p in points], line, color=colour, label=_plain(method), lw=1.8)
        low = [p.mean if p.low is None else p.low for p in points]
        high = [p.mean if p.high is None else p.high for p in points]
        axes.fill_between(tasks, low, high, color=colour, alpha=0.12, lw=0)
    axes.set(xlabel="tasks learned", ylabel="accuracy over all classes seen (%)", ylim=(0, 102), xticks=list(tasks))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left")


def recall_timeline(axes: Axes, result: Result) -> None:
    """When each probe of a run fired, what it found, and the gap until the next."""
    starts = [sum(result.epochs_per_task[:i]) for i in range(len(result.epochs_per_task))]
    for task, (start, epochs) in enumerate(zip(starts, result.epochs_per_task, strict=True), start=1):
        axes.axvspan(start, start + epochs, color="#000000", alpha=0.05 if task % 2 else 0.0, lw=0)
        axes.annotate(
            f"task {task}", (start + epochs / 2, 0.02), xycoords=("data", "axes fraction"), ha="center", size=8
        )
    for probe in result.probes:
        at = starts[probe["task"] - 1] + probe["epoch"]
        end = min(
            starts[probe["task"] - 1] + probe["next_epoch"],
            starts[probe["task"] - 1] + result.epochs_per_task[probe["task"] - 1],
        )
        colour = "#0072B2" if probe["passed"] else "#D55E00"
        axes.plot([at, end], [probe["recall"]] * 2, color=colour, lw=1, alpha=0.6)
        axes.plot(at, probe["recall"], "o" if probe["passed"] else "x", color=colour, ms=5)
    threshold = result.spec["mastery_threshold"]
    axes.axhline(threshold, color="#666666", lw=0.8, ls=":")
    axes.annotate(f"threshold {threshold:g} %", (0, threshold), xytext=(2, -9), textcoords="offset points", size=8)
    lowest = min([probe["recall"] for probe in result.probes] + [threshold])
    axes.set(
        xlabel="epoch",
        ylabel="recall of the buffer (%)",
        ylim=(max(0, lowest - 12), 101.5),
        xlim=(0, sum(result.epochs_per_task)),
    )


def comparison_figure(results: Sequence[Result]) -> Figure:
    probed = [r for r in results if r.spec["method"] == "tfcsr" and r.probes]
    figure = Figure(figsize=(10, 3.8) if probed else (5.2, 3.8), layout="constrained")
    axes = figure.subplots(1, 2 if probed else 1, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    seeds = len({r.spec["seed"] for r in results})
    learning_curves(axes[0], results)
    axes[0].set_title(f"{_plain(results[0].spec['benchmark'])}: mean of {seeds} seeds, 95 % interval", size=10)
    if probed:
        recall_timeline(axes[1], probed[0])
        axes[1].set_title(f"tfcsr, seed {probed[0].spec['seed']}: probes passed (•) and failed (×), and gaps", size=10)
    return figure


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = read_results(Path(sys.argv[1]))
    if not results:
        raise OutputError(f"{sys.argv[1]} holds no complete run")
    comparison_figure(results).savefig(sys.argv[2], dpi=150)


if __name__ == "__main__":
    main()
