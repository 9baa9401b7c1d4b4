"""The page, whole: its opening, the targets, a section for each question; and lines for a terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib

from tfcsr.beyond.arms import OURS, RECIPE, SECTIONS
from tfcsr.beyond.methods import AIM, WANTED, accuracy_rows, best_published, field
from tfcsr.beyond.outcomes import method_of
from tfcsr.beyond.replay import adapting, frontier, quarter
from tfcsr.beyond.study import STUDY, Beyond, sections_with_runs
from tfcsr.beyond.verdicts import MARGIN, QUARTER, reached
from tfcsr.experiments.statistics import FEWEST, Estimate
from tfcsr.files import write_bytes
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.beyond.balance import balance_lines
from tfcsr.reporting.beyond.exam import exam_lines
from tfcsr.reporting.beyond.figures import CAPTIONS, DRAWN
from tfcsr.reporting.beyond.ingredients import ablation_lines, choice_lines, policy_lines
from tfcsr.reporting.beyond.methods import accuracy_lines, elsewhere_lines, field_lines
from tfcsr.reporting.beyond.replay import adapting_lines, frontier_lines
from tfcsr.reporting.beyond.small import small_lines
from tfcsr.reporting.figures import STYLE, save
from tfcsr.reporting.pages import bound, markdown_table, session_lines, with_interval
from tfcsr.reporting.words import counted

PAGE = "beyond.md"
HOW_TO_READ = (
    "**How to read it.** `± x` is half the 95 % confidence interval of the mean over n seeds (Student's t); fewer than"
    f" {FEWEST} seeds give none, and decide nothing. Differences are paired: seed by seed, over the seeds that"
    f" both have. *No loss*: the interval's lower end is above −{MARGIN:g} points; *loss*: its upper end is below 0;"
    f" *pays*: its lower end is above 0; *does not pay*: its upper end is below {MARGIN:g}; *better* and *worse*: it"
    f" leaves 0 out; otherwise *open*, or *{cells.SAME}*. Intervals are 95 % each, not corrected for how many"
    " there are. A target is *met* when the mean reaches it."
)
SAID: Mapping[str, Callable[[Beyond], list[str]]] = {
    "accuracy": accuracy_lines,
    "frontier": frontier_lines,
    "adapting": adapting_lines,
    "exam": exam_lines,
    "ablation": ablation_lines,
    "balanced": balance_lines,
    "policies": policy_lines,
    "field": field_lines,
    "elsewhere": elsewhere_lines,
    "small": small_lines,
    "choices": choice_lines,
}


def write_pages(study: Beyond, out: Path) -> list[Path]:
    """Every figure as PNG and SVG, the page, and the results they follow from; of the sections asked for and of all
    others that have any run.
    """
    study.records.write(out / "results.json")
    known = sections_with_runs(study)
    shown = [section for section in SECTIONS if section in study.sections or section in known]
    written = []
    for section in shown:
        with matplotlib.rc_context(STYLE):
            if section in DRAWN and section in known and (figure := DRAWN[section](study)) is not None:
                for kind in ("png", "svg"):
                    written.append(out / f"{section}.{kind}")
                    save(figure, written[-1], kind)
    page = out / PAGE
    drawn = {path.stem for path in written}
    write_bytes(page, page_text(study, shown, drawn).encode())
    return [*written, page]


def page_text(study: Beyond, shown: Sequence[str], drawn: Iterable[str]) -> str:
    lines = ["# Beyond the paper", "", *opening_lines(study), "", HOW_TO_READ, "", "## Targets", ""]
    lines += target_lines(study)
    known = sections_with_runs(study)
    for section in shown:
        lines += ["", f"## {SECTIONS[section]}", ""]
        if section in drawn:
            lines += [f"![{CAPTIONS[section]}]({section}.svg)", ""]
        lines += SAID[section](study) if section in known else [cells.NO_RUNS]
    lines += ["", "## How it was made", "", *session_lines(study.records)]
    return "\n".join(lines) + "\n"


def opening_lines(study: Beyond) -> list[str]:
    """How it was made, with which budget and recipe, as the runs' own specs say."""
    spec = next(iter(study.specs(f"accuracy/{OURS}").values()))
    missing, planned = len(study.missing()), len(study.plan())
    there = "" if not missing else f" {missing:,} of {counted(planned, 'run')} have yet to be made."
    data = "" if study.data is None else f" --data {study.data}"
    made = f"Made by `tfcsr reproduce {STUDY}{data}`; every number follows from `results.json` beside this page."
    lines = [made + there]
    if study.data is not None:
        lines += [
            "",
            f"Run on `{study.data}` instead of Split CIFAR-100: nothing here can be held against published values. What"
            " belongs to a benchmark (tasks, network, memory, epochs) is that benchmark's own, so that some sections"
            " share their runs.",
        ]
    steps = {record.optimizer_steps for record in study.of(f"accuracy/{OURS}").values()}
    each = f" of {min(steps) // (spec.epochs * spec.tasks)} steps" if len(steps) == 1 else ""
    owner = "The budget is the paper's" if study.data is None else "The budget"
    recipe = cells.recipe(
        {name: spec.get(name, value) for name, value in RECIPE.items() if name not in ("benchmark", "policy")}
    )
    return [
        *lines,
        "",
        f"{owner}: `{spec.benchmark}` in {spec.tasks} tasks, `{spec.model}` from scratch, class order"
        f" {spec.class_order}, {spec.epochs} epochs{each} of {spec.batch_size} images a task, a memory of"
        f" {spec.buffer_capacity:,}. Where a section has another, it says so.",
        "",
        f"All methods have one recipe, chosen for `{OURS}` on held-out training data: {recipe}. The memory is"
        f" {RECIPE['policy']}; that of iCaRL and of {OURS} is herded.",
    ]


def target_lines(study: Beyond) -> list[str]:
    rows = []
    if study.data is None:
        (ours,) = (row for row in accuracy_rows(study) if method_of(row.name) == OURS)
        wanted = f"at least {WANTED:g} %, aim {AIM:g} %"
        verdict = _with_aim(ours.accuracy, WANTED, reached(ours.accuracy, AIM))
        rows.append((f"accuracy of `{OURS}`", wanted, with_interval(ours.accuracy, unit=" %"), verdict))
    target = quarter(frontier(study, OURS))
    rows.append(
        (
            f"replay of `{OURS}` at no loss",
            f"at most {100 * QUARTER:g} % of the batches",
            "; ".join(map(cells.place, target.at_no_loss or target.nearest)) or "no runs",
            target.verdict,
        )
    )
    if study.data is None:
        for one in field(study):
            best = best_published(one.memory)
            aim = "" if best is None else f", aim above {best.accuracy[one.memory]:g} % ({best.method})"
            verdict = _with_aim(one.accuracy, one.wanted, one.ahead)
            what = f"50 epochs, memory {one.memory:,}: {one.label}"
            rows.append((what, f"at least {one.wanted:g} %{aim}", with_interval(one.accuracy, unit=" %"), verdict))
    lines = markdown_table(("target", "wanted", "found", "verdict"), rows)
    if study.data is not None:
        lines += ["", "Targets of accuracy are for CIFAR-100 and are left out."]
    return lines


def _with_aim(found: Estimate | None, wanted: float, aim: str) -> str:
    verdict = reached(found, wanted)
    if verdict == "open":
        return verdict
    short = ", but its interval reaches below" if verdict == "met" and found and bound(found, "low") < wanted else ""
    return f"{verdict}{short}; aim {aim}"


def outcome_lines(study: Beyond, pages: Sequence[Path]) -> Iterable[str]:
    """For a terminal: what is left to run, the main findings, and where to look."""
    if missing := len(study.missing()):
        yield f"still to run: {counted(missing, 'run')}; the same command goes on"
    yield from finding_lines(study)
    figures = len([page for page in pages if page.suffix != ".md"])
    yield f"{pages[-1]}" + (f", {figures} figure files beside it" if figures else "")


def finding_lines(study: Beyond) -> Iterable[str]:
    """Accuracy, the frontier and adapting, a line each, as far as there are runs."""
    ours = next(row for row in accuracy_rows(study) if method_of(row.name) == OURS)
    if ours.n:
        target = f", target {WANTED:g} % {reached(ours.accuracy, WANTED)}" if study.data is None else ""
        yield f"accuracy: {OURS} {with_interval(ours.accuracy, unit=' %')}{target}"
    found = quarter(frontier(study, OURS))
    if found.tried:
        least = min(found.at_no_loss or found.nearest or found.tried, key=lambda point: point.batches or 0.0)
        yield f"frontier: a quarter of the replay batches or fewer at no loss: {found.verdict}; {cells.place(least)}"
    judged = [f"{one.label} {one.verdict}" for one in adapting(study) if one.adaptive.n]
    if judged:
        yield f"adapting: {'; '.join(judged)}"
