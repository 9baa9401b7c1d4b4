"""What the runs behind our own claims say, as numbers and verdicts. Pure: it reads records and draws nothing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from tfcsr.beyond.arms import (
    ADAPTIVE,
    ARMS,
    FIELD,
    HERDED,
    LISTED,
    NAMES,
    OURS,
    POLICIES,
    SECTIONS,
    WHEN,
    WITH_EXAM,
    WITHOUT,
    FieldValue,
)
from tfcsr.beyond.study import Beyond, Row, accuracies, epoch_of_replay
from tfcsr.experiments.record import Record, question
from tfcsr.experiments.statistics import FEWEST, Estimate, optional_estimate, paired_difference, wilson
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
BINS = ((0, 20), (20, 40), (40, 60), (60, 80), (80, 100))


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
        sum(record.collapsed is not None for record in row.runs.values()),
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
    verdict: str

    @property
    def control(self) -> bool:
        return self.when in CONTROLS


def asked(question: str, small: str | None = None) -> str:
    """What the names of a question's arms begin with: at the paper's budget, or on a small benchmark."""
    return question if small is None else f"small/{small}/{question}"


def whole(small: str | None = None) -> str:
    """The arm of ours as it is."""
    return f"accuracy/{OURS}" if small is None else f"small/{small}/whole"


def frontier(study: Beyond, method: str, small: str | None = None) -> list[Point]:
    """Every way, with its paired difference to replay in every epoch."""
    arms = {when: f"{asked('frontier', small)}/{method}/{when}" for when in WHEN}
    every = study.row(arms["every"])

    def share(row: Row, quantity: str) -> float | None:
        part, whole = row.mean(quantity), every.mean(quantity)
        return None if part is None or not whole else part / whole

    points = []
    for when, arm in arms.items():
        if arm not in ARMS:
            continue
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
                "" if when == "every" else loss_verdict(difference),
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


def effects(study: Beyond, method: str) -> Effects:
    def difference(when: str, other: str) -> Estimate | None:
        return paired(study, f"frontier/{method}/{when}", f"frontier/{method}/{other}")

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


def _replay_alike(one: Record, other: Record) -> bool:
    if one.replayed is None or other.replayed is None:
        return False
    return abs(one.replayed - other.replayed) <= 0.55 * epoch_of_replay(one)  # steps vary a little from task to task


@dataclass(frozen=True)
class Pair:
    """A class after a task: what the memory says of it, and what the test data say."""

    task: int
    right: int
    asked: int
    accuracy: float

    @property
    def recall(self) -> float:
        return 100 * self.right / self.asked


@dataclass(frozen=True)
class Bin:
    """Classes of about the same test accuracy."""

    low: float
    high: float
    recall: float
    accuracy: float
    pairs: int


@dataclass(frozen=True)
class Honesty:
    """How well what the memory says can be believed: estimates over seeds, in points and percent."""

    source: str
    method: str
    n: int
    correlation: Estimate | None
    honest_correlation: Estimate | None
    """The correlation to be expected of an unbiased exam of this size: few questions are noise."""
    asked: float | None
    """How many questions there are about a class, on the average."""
    bias: Estimate | None
    bias_at_end: Estimate | None
    bias_after: list[Estimate | None]
    error: Estimate | None
    covered: int
    moments: int
    pairs: list[Pair]


# What is asked, and the arms in which it is.
SOURCES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "exam": ("the exam", {"er": "exam/er", OURS: f"exam/{OURS}"}),
    "probe": ("the paper's probe of replayed examples", {"er": "accuracy/er", OURS: f"accuracy/{OURS}"}),
}


def pairs_of(record: Record) -> list[Pair]:
    """Of each class that was asked for, after each task; what cannot be is left out, and what was asked otherwise."""
    found, first = [], len(record.accuracy_after_task) if record.all_outputs else 1
    rows = zip(record.recall_asked, record.recall_right, record.class_accuracy, strict=False)
    for task, (asked, right, accuracy) in enumerate(rows, start=1):
        for n, k, value in zip(asked, right, accuracy, strict=False):
            if task >= first and n > 0 and 0 <= k <= n and 0 <= value <= 100:
                found.append(Pair(task, k, n, value))
    return found


def correlation(pairs: Sequence[Pair]) -> float | None:
    """Pearson's, between recall and test accuracy; None where one of them does not vary."""
    if len(pairs) < 2:
        return None
    x, y = [pair.recall for pair in pairs], [pair.accuracy for pair in pairs]
    middle_x, middle_y = fmean(x), fmean(y)
    spread_x, spread_y = pvariance(x, middle_x), pvariance(y, middle_y)
    if spread_x <= 0 or spread_y <= 0:
        return None
    together = fmean((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return max(-1.0, min(1.0, together / math.sqrt(spread_x * spread_y)))


def honest_correlation(pairs: Sequence[Pair]) -> float | None:
    """What it would be if each answer were right with the class's test accuracy as its probability."""
    if len(pairs) < 2:
        return None
    chances = [pair.accuracy / 100 for pair in pairs]
    spread = pvariance(chances)
    noise = fmean(p * (1 - p) / pair.asked for p, pair in zip(chances, pairs, strict=True))
    return math.sqrt(spread / (spread + noise)) if spread > 0 else None


def bias(pairs: Sequence[Pair]) -> float | None:
    """Mean recall minus mean test accuracy of the classes asked for, in points."""
    return fmean(pair.recall - pair.accuracy for pair in pairs) if pairs else None


@dataclass(frozen=True)
class Moment:
    """After a task: what the memory says as a whole, and the test accuracy over all classes seen."""

    right: int
    asked: int
    accuracy: float

    @property
    def error(self) -> float:
        return abs(100 * self.right / self.asked - self.accuracy)

    @property
    def covered(self) -> bool:
        low, high = wilson(self.right, self.asked)
        return low <= self.accuracy <= high


def moments_of(record: Record) -> list[Moment]:
    pairs = pairs_of(record)
    found = []
    for task, accuracy in enumerate(record.accuracy_after_task, start=1):
        own = [pair for pair in pairs if pair.task == task]
        if own:
            found.append(Moment(sum(p.right for p in own), sum(p.asked for p in own), accuracy))
    return found


def honesty(study: Beyond, source: str, method: str) -> Honesty:
    records = [record for record in study.of(SOURCES[source][1][method]).values() if pairs_of(record)]
    runs = [pairs_of(record) for record in records]
    moments = [moments_of(record) for record in records]
    tasks = max((record.run_spec.tasks for record in records), default=0)

    def biases(task: int) -> list[float | None]:
        return [bias([pair for pair in pairs if pair.task == task]) for pairs in runs]

    after = [biases(task) for task in range(1, tasks + 1)]
    # A moment counts as much as another, however many classes there are by then.
    whole = [[value for value in run if value is not None] for run in zip(*after, strict=True)]
    everything = [pair for pairs in runs for pair in pairs]
    return Honesty(
        source=source,
        method=method,
        n=len(runs),
        correlation=optional_estimate(map(correlation, runs)),
        honest_correlation=optional_estimate(map(honest_correlation, runs)),
        asked=fmean(pair.asked for pair in everything) if everything else None,
        bias=optional_estimate(fmean(run) for run in whole),
        bias_at_end=optional_estimate(after[-1]) if after else None,
        bias_after=[optional_estimate(values) for values in after],
        error=optional_estimate(fmean(m.error for m in run) for run in moments),
        covered=sum(m.covered for run in moments for m in run),
        moments=sum(map(len, moments)),
        pairs=everything,
    )


def binned(pairs: Iterable[Pair], bins: Sequence[tuple[float, float]] = BINS) -> list[Bin]:
    """Bins of test accuracy that have any class in them; an upper end belongs to the next, but for the last."""
    pairs, found = list(pairs), []
    for low, high in bins:
        own = [p for p in pairs if low <= p.accuracy < high or (high == bins[-1][1] == p.accuracy)]
        if own:
            found.append(Bin(low, high, fmean(p.recall for p in own), fmean(p.accuracy for p in own), len(own)))
    return found


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
        for way in ("spaced", "every"):
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
    found = [name.rpartition("/")[0] for name in ARMS if section_of(name) == "elsewhere"]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Choice:
    """A setting tried on held-out training data. What it gives on test data is not asked."""

    label: str
    method: str
    held_out: float | None
    n: int
    chosen: bool


def choices(study: Beyond) -> dict[str, list[Choice]]:
    """By method, in the order in which they stand."""
    found: dict[str, list[Choice]] = {}
    for name, arm in ARMS.items():
        if section_of(name) == "choices":
            row, method = study.row(name), str(arm.fields["method"])
            # The recipe that all methods have in every other section.
            tried = {field: value for field, value in arm.fields.items() if field != "held_out"}
            chosen = tried == dict(ARMS[f"accuracy/{method}"].fields)
            found.setdefault(method, []).append(Choice(row.label, method, row.held_out, row.n, chosen))
    return found
