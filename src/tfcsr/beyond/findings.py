"""What the runs behind our own claims say, as numbers and verdicts. Pure: it reads records and draws nothing."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tfcsr.beyond.arms import (
    ADAPTIVE,
    ARMS,
    FIELD,
    HERDED,
    IN_FIELD,
    LISTED,
    NAMES,
    OURS,
    POLICIES,
    SECTIONS,
    SMALL,
    SQUARED,
    WHEN,
    WITH_EXAM,
    WITHOUT,
    FieldValue,
)
from tfcsr.beyond.study import Beyond, Row, accuracies, epoch_of_replay
from tfcsr.experiments.record import Record, question
from tfcsr.experiments.statistics import FEWEST, Estimate, optional_estimate, paired_difference
from tfcsr.experiments.study import section_of

# In points: what is smaller is no loss, and no gain worth having.
MARGIN = 0.5
QUARTER = 0.25
# What we set out for, in percent: final accuracy at the paper's budget, and with 50 epochs by the size of the memory.
WANTED, AIM = 49.5, 52.0
WANTED_IN_FIELD: Mapping[int, float] = {500: 50.0, 2000: 58.0}
# Points of the frontier that explain others and are no proposals.
CONTROLS = ("random", "same-new", "sixteen", "eight")
UPPER_BOUND = "joint"
EVEN = "even"
HERDED_ARMS = "policies/herded"


def paired(study: Beyond, arm: str, against: str) -> Estimate | None:
    """By how many points one arm ends above another, over the seeds that both have."""
    return paired_difference(accuracies(study.of(arm)), accuracies(study.of(against)))


def loss_verdict(difference: Estimate | None) -> str:
    """Whether less replay costs anything: `no loss`, `loss` or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > -MARGIN:
        return "no loss"
    return "loss" if difference.high < 0 else "open"


def gain_verdict(difference: Estimate | None) -> str:
    """Whether an effort is worth it: it `pays`, `does not pay` (a gain of half a point is ruled out), or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > 0:
        return "pays"
    return "does not pay" if difference.high < MARGIN else "open"


def change_verdict(difference: Estimate | None) -> str:
    """`better`, `worse`, or `open`."""
    if difference is None or difference.low is None or difference.high is None:
        return "open"
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "open"


def reached(found: Estimate | None, wanted: float) -> str:
    """`met` where the mean reaches it, `not met` where it does not, `open` with too few seeds."""
    if found is None or found.n < FEWEST:
        return "open"
    return "met" if found.mean >= wanted else "not met"


@dataclass(frozen=True)
class Outcome:
    """What an arm came to, beside what it is held against; both without intervals from too few seeds."""

    name: str
    label: str
    n: int
    accuracy: Estimate | None
    difference: Estimate | None
    replay_batches: float | None
    replayed: float | None
    memory_checks: float | None
    steps: float | None
    collapsed: int
    newest_alone: int
    """How many runs ended no higher than a network would that knows the newest task and nothing else."""


def outcome(study: Beyond, arm: str, against: str | None = None, label: str | None = None) -> Outcome:
    row = study.row(arm, against)
    return Outcome(
        arm,
        label or row.label,
        row.n,
        row.accuracy,
        None if arm == against else row.difference,
        row.mean("replay_batches"),
        row.mean("replayed"),
        row.mean("memory_checks"),
        row.mean("optimizer_steps"),
        row.collapsed,
        row.newest_alone,
    )


def sections_with_runs(study: Beyond) -> set[str]:
    """Those that any run was made for. One that several need is the first one's; of those asked for, if any is."""
    found: set[str] = set()
    taken: set[object] = set()
    for section in sorted(SECTIONS, key=lambda name: name not in study.sections):
        needed = [spec for name in ARMS if section_of(name) == section for spec in study.specs(name).values()]
        own = {question(spec): spec for spec in needed if question(spec) not in taken}
        if any(study.known(spec) is not None for spec in own.values()):
            found.add(section)
        taken |= own.keys()
    return found


def accuracy_rows(study: Beyond) -> list[Outcome]:
    return [outcome(study, f"accuracy/{method}", "accuracy/er") for method in NAMES]


def curve(runs: Iterable[Record]) -> list[Estimate]:
    """Accuracy after each task; before the last, of runs that were asked as they are now, if there are any."""
    known = list(runs)
    points = []
    for place in range(min((len(record.accuracy_after_task) for record in known), default=0)):
        last = [len(record.accuracy_after_task) == place + 1 for record in known]
        told = [record for record, end in zip(known, last, strict=True) if end or not record.all_outputs] or known
        points.append(optional_estimate(record.accuracy_after_task[place] for record in told))
    return [point for point in points if point is not None]


def curves(runs: Mapping[int, Record]) -> dict[int, list[float]]:
    """By seed, the accuracies after each task, of runs that were asked as they are now."""
    return {seed: record.accuracy_after_task for seed, record in runs.items() if not record.all_outputs}


def along(runs: Mapping[int, Record]) -> dict[int, float]:
    """By seed, the mean of these."""
    return {seed: fmean(after) for seed, after in curves(runs).items()}


@dataclass(frozen=True)
class Course:
    """Ours beside another over the whole sequence: the paired difference of the means over tasks, and the tasks after
    which it is ahead or behind.
    """

    mean: Estimate
    ahead: list[int]
    behind: list[int]


def course(study: Beyond, arm: str, against: str) -> Course | None:
    ours, other = study.of(arm), study.of(against)
    mean = paired_difference(along(ours), along(other))
    if mean is None:
        return None
    found: dict[str, list[int]] = {"better": [], "worse": [], "open": []}
    both = curves(ours), curves(other)
    for place in range(min(len(after) for known in both for after in known.values())):
        one, two = ({seed: after[place] for seed, after in known.items()} for known in both)
        found[change_verdict(paired_difference(one, two))].append(place + 1)
    return Course(mean, found["better"], found["worse"])


@dataclass(frozen=True)
class Point:
    """Some way to place replay: what it costs, as a share of what replay in every epoch does, and what it gives."""

    method: str
    when: str
    label: str
    n: int
    batches: float | None
    images: float | None
    replayed: float | None
    accuracy: Estimate | None
    difference: Estimate | None
    along: Estimate | None
    """The mean over the accuracies after each task."""
    verdict: str
    collapsed: int

    @property
    def control(self) -> bool:
        return self.when in CONTROLS


def asked(question: str, where: str | None = None) -> str:
    """What the names of a question's arms begin with: at the paper's budget, on a small benchmark, or elsewhere."""
    if where is None:
        return question
    return f"{'small' if where in SMALL else 'elsewhere'}/{where}/{question}"


def whole(small: str | None = None) -> str:
    """The arm of ours as it is."""
    return f"accuracy/{OURS}" if small is None else f"small/{small}/whole"


def frontier(study: Beyond, method: str, where: str | None = None) -> list[Point]:
    """Every way that is tried there, with its paired difference to replay in every epoch."""
    arms = {when: arm for when in WHEN if (arm := f"{asked('frontier', where)}/{method}/{when}") in ARMS}
    every = study.row(arms["every"])

    def share(row: Row, quantity: str) -> float | None:
        part, whole = row.mean(quantity), every.mean(quantity)
        return None if part is None or not whole else part / whole

    points = []
    for when, arm in arms.items():
        row = study.row(arm)
        difference = None if when == "every" else paired(study, row.name, every.name)
        points.append(
            Point(
                method,
                when,
                WHEN[when][0],
                row.n,
                share(row, "replay_batches"),
                share(row, "replayed"),
                row.mean("replayed"),
                row.accuracy,
                difference,
                optional_estimate(along(row.runs).values()),
                "" if when == "every" else loss_verdict(difference),
                row.collapsed,
            )
        )
    return points


@dataclass(frozen=True)
class Target:
    """A quarter of the replay batches or fewer, at no loss."""

    verdict: str
    at_no_loss: list[Point]
    tried: list[Point]

    @property
    def nearest(self) -> list[Point]:
        """What lost least of all that was tried, as far as it can be paired."""
        known = [(point.difference.mean, point) for point in self.tried if point.difference is not None]
        return [max(known, key=lambda found: found[0])[1]] if known else []


def quarter(points: Sequence[Point]) -> Target:
    tried = [p for p in points if p.n and not p.control and p.batches is not None and p.batches <= QUARTER + 1e-9]
    kept = [point for point in tried if point.verdict == "no loss"]
    verdict = "met" if kept else "open"
    if tried and not kept and all(point.verdict == "loss" for point in tried):
        verdict = "not met"
    return Target(verdict, kept, tried)


@dataclass(frozen=True)
class Effects:
    """Spaced replay differs from replay in every epoch in two things; one control tells them apart. All paired."""

    less_replay: Estimate | None
    more_new: Estimate | None
    together: Estimate | None
    random: Estimate | None
    fourth: Estimate | None


def effects(study: Beyond, method: str, where: str | None = None) -> Effects:
    arms = f"{asked('frontier', where)}/{method}"

    def difference(when: str, other: str) -> Estimate | None:
        both = f"{arms}/{when}", f"{arms}/{other}"
        return paired(study, *both) if ARMS.keys() >= set(both) else None

    return Effects(
        less_replay=difference("same-new", "every"),
        more_new=difference("spaced", "same-new"),
        together=difference("spaced", "every"),
        random=difference("random", "spaced"),
        fourth=difference("fourth", "spaced"),
    )


@dataclass(frozen=True)
class Adapting:
    """A schedule that the exam drives, and a fixed one that replays as much. Then one that replays when another run's
    exam asked for it: on the whole as much and as unevenly, and still no answer to what this run has forgotten.
    """

    label: str
    adaptive: Outcome
    fixed: Outcome
    matched: bool
    """Whether, seed by seed, the two replay as many images, as far as whole epochs can."""
    verdict: str
    yoked: Outcome | None
    own_exam: Estimate | None
    """By how much the driven one ends above the yoked one, paired."""


def adapting(study: Beyond, small: str | None = None) -> list[Adapting]:
    found = []
    for name, (label, _) in ADAPTIVE.items():
        arm = f"{asked('adapting', small)}/{name}"
        twin, control = f"{arm}/fixed", f"{arm}/yoked"
        adaptive, fixed, twins = outcome(study, arm, twin), outcome(study, twin), study.of(twin)
        matched = all(_replay_alike(run, twins[seed]) for seed, run in study.of(arm).items() if seed in twins)
        # Of two that replay differently, more replay may be what pays.
        verdict = gain_verdict(adaptive.difference) if matched else "open"
        yoked = outcome(study, control) if control in ARMS else None
        own_exam = None if yoked is None else paired(study, arm, control)
        found.append(Adapting(label, adaptive, fixed, matched, verdict, yoked, own_exam))
    return found


def timing(study: Beyond, small: str) -> list[Outcome]:
    """Ways to place the same replay, beside evenly spread epochs."""
    arms = {when: f"{asked('timing', small)}/{when}" for when in LISTED}
    return [outcome(study, arm, arms[EVEN]) for arm in arms.values()]


def squared(study: Beyond, small: str) -> list[Outcome]:
    """The paper's spaced replay, then ER with the same loss and other epochs, each against it."""
    arms = [f"{asked('squared', small)}/{name}" for name in SQUARED]
    return [outcome(study, arm, arms[0]) for arm in arms]


def _replay_alike(one: Record, other: Record) -> bool:
    if one.replayed is None or other.replayed is None:
        return False
    return abs(one.replayed - other.replayed) <= 0.55 * epoch_of_replay(one)  # steps vary a little from task to task


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
class InField:
    """Ours with one size of the memory and one way of replay."""

    memory: int
    way: str
    label: str
    accuracy: Estimate | None
    wanted: float
    verdict: str
    ahead: str
    """Whether it reaches the best that others published: as `verdict`."""


def field(study: Beyond) -> list[InField]:
    found = []
    for memory, wanted in WANTED_IN_FIELD.items():
        for way in IN_FIELD[memory]:
            row = study.row(f"field/{memory}/{way}")
            accuracy, best = row.accuracy, best_published(memory)
            ahead = "open" if best is None else reached(accuracy, best.accuracy[memory])
            found.append(InField(memory, way, row.label, accuracy, wanted, reached(accuracy, wanted), ahead))
    return found


def best_published(memory: int) -> FieldValue | None:
    known = [value for value in FIELD if memory in value.accuracy]
    return max(known, key=lambda value: value.accuracy[memory], default=None)


@dataclass(frozen=True)
class Ranking:
    """The methods in one setting, the best first; then those without runs. The upper bound stands aside."""

    setting: str
    places: list[Outcome]
    bound: Outcome
    lead: Estimate | None
    """Ours against the best of the others, paired."""
    rival: str | None

    @property
    def order(self) -> list[str]:
        return [method_of(place.name) for place in self.places if place.accuracy is not None]

    @property
    def complete(self) -> bool:
        return all(place.n for place in self.places)


def method_of(arm: str) -> str:
    return arm.rpartition("/")[2]


def ranking(study: Beyond, setting: str) -> Ranking:
    """`setting`: what stands before the method in the names of its arms."""
    arms = [outcome(study, f"{setting}/{method}", f"{setting}/er") for method in NAMES if method != UPPER_BOUND]
    places = sorted(arms, key=lambda arm: -math.inf if arm.accuracy is None else arm.accuracy.mean, reverse=True)
    others = [place.name for place in places if place.accuracy is not None and method_of(place.name) != OURS]
    rival = others[0] if others else None
    lead = None if rival is None else paired(study, f"{setting}/{OURS}", rival)
    bound = outcome(study, f"{setting}/{UPPER_BOUND}", f"{setting}/er")
    return Ranking(setting, places, bound, lead, None if rival is None else method_of(rival))


def settings() -> list[str]:
    """Where the methods are ranked; an arm there may also be asked another question."""
    return list(dict.fromkeys(arm.rpartition("/")[0] for arm in ARMS if re.fullmatch(r"elsewhere/[^/]+/[^/]+", arm)))


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
