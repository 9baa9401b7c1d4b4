"""What an exam costs, what each ingredient and each policy is worth, and how the settings were chosen."""

from dataclasses import dataclass

from tfcsr.beyond.arms import ARMS, HERDED, NAMES, OURS, POLICIES, WITH_EXAM, WITHOUT
from tfcsr.beyond.outcomes import Outcome, asked, outcome, paired, whole
from tfcsr.beyond.study import Beyond
from tfcsr.experiments.statistics import Estimate
from tfcsr.experiments.study import section_of

HERDED_ARMS = "policies/herded"


@dataclass(frozen=True)
class Cost:
    """What it costs to keep an exam, paired."""

    method: str
    with_exam: Outcome
    without: Outcome
    difference: Estimate | None


def exam_cost(study: Beyond, method: str) -> Cost:
    kept, without = f"exam/{method}", f"accuracy/{method}"
    return Cost(method, outcome(study, kept), outcome(study, without), paired(study, kept, without))


def ablation(study: Beyond, small: str | None = None) -> list[Outcome]:
    """Ours as it is, then with each ingredient taken away, and with an exam."""
    all_of_it, arms = whole(small), [f"{asked('ablation', small)}/{name}" for name in WITHOUT]
    exam = f"exam/{OURS}" if small is None else f"{asked('ablation', small)}/exam"
    return [
        outcome(study, all_of_it, label="all of it"),
        *(outcome(study, arm, all_of_it) for arm in arms if arm in ARMS),
        outcome(study, exam, all_of_it, WITH_EXAM),
    ]


def policies(study: Beyond, small: str | None = None) -> list[Outcome]:
    """Ours as it is, with a herded memory, then with others."""
    herding, arms = whole(small), [f"{asked('policies', small)}/{policy}" for policy in POLICIES]
    return [
        outcome(study, herding, label="herding"),
        outcome(study, f"{asked('ablation', small)}/herding", herding, "class-balanced"),
        *(outcome(study, arm, herding) for arm in arms),
    ]


def herded(study: Beyond) -> list[tuple[Outcome, Estimate | None]]:
    """The others with a herded memory, against what they have without; and how far ahead of them ours is."""
    arms = {method: f"{HERDED_ARMS}/{method}" for method in HERDED}
    return [
        (outcome(study, arm, f"accuracy/{method}"), paired(study, f"accuracy/{OURS}", arm))
        for method, arm in arms.items()
    ]


@dataclass(frozen=True)
class Choice:
    """A setting tried on held-out training data. What it gives on test data is not asked."""

    label: str
    held_out: float | None
    n: int
    chosen: bool


def choices(study: Beyond) -> dict[str, list[Choice]]:
    """By method, in the order in which they stand."""
    found: dict[str, list[Choice]] = {}
    for name, arm in ARMS.items():
        if section_of(name) == "choices":
            row, method = study.row(name), str(arm.fields["method"])
            settled = ARMS[f"accuracy/{method}"]  # what it has in every other section
            tried = {field: value for field, value in arm.fields.items() if field != "held_out"}
            chosen = tried == dict(settled.fields)
            found.setdefault(NAMES[method], []).append(Choice(row.label, row.held_out, row.n, chosen))
    return found
