"""The page with every table asked for, and what the verdicts amount to."""

from pathlib import Path

import matplotlib

from tfcsr.files import write_bytes
from tfcsr.paper.audit import Finding, audit
from tfcsr.paper.claims import claims
from tfcsr.paper.published import GROUPS, TARGETS, Target
from tfcsr.paper.reproduction import Reproduction, arms_of, is_read_off
from tfcsr.reporting.figures import STYLE, save
from tfcsr.reporting.pages import markdown_table, session_lines
from tfcsr.reporting.progress import clock
from tfcsr.reporting.reproduction.cells import choice_cells, line_columns, summary_cells
from tfcsr.reporting.reproduction.figures import draw

PAGE = "reproduction.md"

COLLAPSED = "Runs that collapsed (one answer to every image) are in the means, and counted."
RULE = (
    "**The rule.** A published number is of one run. It is *consistent* when it lies in the 95 % prediction interval of"
    " ours, where one more run of ours would lie with 95 % probability: mean ± t · s · √(1 + 1/n), with Student's t for"
    " n − 1 degrees of freedom. It is *not consistent* when it lies outside, and *open* where there are fewer than two"
    " runs. `± x` is half the 95 % confidence interval of the mean."
    f" {COLLAPSED}"
)


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


def choice_lines(study: Reproduction, target: Target) -> list[str]:
    header, *rows = choice_cells(study, target)
    return [
        *markdown_table(header, rows),
        "",
        "Trained on 90 % of the training data, so that the audit can make the same choice on the rest. The table's"
        " other settings, buffer capacity 200 and 1,000 and mastery threshold 95 and 10, are those of its runs; tables"
        " 2 and A.1 vary them.",
    ]


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
