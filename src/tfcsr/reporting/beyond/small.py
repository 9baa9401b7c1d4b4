"""The questions of other sections on small benchmarks, and what holds on all of them."""

from collections.abc import Callable, Mapping, Sequence

from tfcsr.beyond.arms import EPOCHS, NAMES, OURS, REPLAYING, SMALL, SPACED, WHEN
from tfcsr.beyond.ingredients import ablation, policies
from tfcsr.beyond.outcomes import Outcome, along, whole
from tfcsr.beyond.replay import adapting, effects, frontier, squared, timing
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.experiments.statistics import Estimate, optional_estimate
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.beyond.replay import adapting_table, effects_table
from tfcsr.reporting.pages import markdown_table, with_interval

# Of the images: all of those in a quarter of the epochs, or some in every batch.
A_QUARTER = {
    "spaced": f"replay in epochs {SPACED.replace(',', ', ')}",
    "eight": "8 of 64 images of every batch replayed",
}
ONE_LOSS_APART = (
    "ER and ER-ACE differ in their loss alone: a new example of ER competes with all classes, one of ER-ACE with those"
    " that arrive with it."
)


def small_lines(study: Beyond) -> list[str]:
    """A part for each question, with all benchmarks in it."""
    settings = {small: cells.setting(study, whole(small)) for small in SMALL}
    # On other data they may coincide.
    shown = [small for i, small in enumerate(SMALL) if settings[small] not in list(settings.values())[:i]]
    lines = [
        "They take seconds on a CPU, so more seeds can be had. No augmentation; the recipe is the same otherwise.",
        *cells.sentences(f"`{small}`: {settings[small]}" for small in shown),
    ]
    for title, said in PARTS.items():
        lines += ["", f"### {title}", "", *said(study, shown)]
    return lines


def _frontier(study: Beyond, shown: Sequence[str]) -> list[str]:
    rows, quarter, placed = [], [], []
    more = [when for when in WHEN if when != "every"]
    effects_by = {f"{NAMES[m]}, `{small}`": effects(study, m, small) for m in REPLAYING for small in shown}
    for method in REPLAYING:
        judged: dict[str, list[str]] = {when: [] for when in A_QUARTER}
        for small in shown:
            points = {point.when: point for point in frontier(study, method, small)}
            if not any(point.n for point in points.values()):
                continue
            every = with_interval(points["every"].accuracy)
            less = (with_interval(points[when].difference, "+", without="–") for when in more)
            rows.append((NAMES[method], small, every, *less))
            placed += [(f"{NAMES[method]}, {p.label}, on `{small}`", p) for p in points.values()]
            for when, said in judged.items():
                if points[when].n:
                    said.append(f"{points[when].verdict} on `{small}`, {cells.points(points[when].difference)}")
        for when, said in judged.items():
            quarter += [f"{NAMES[method]} with {A_QUARTER[when]}: {'; '.join(said)}."] if said else []
    header = ("method", "benchmark", "every epoch: final accuracy %", *(f"{WHEN[w][0]}, points" for w in more))
    apart = ONE_LOSS_APART if {"ER", "ER-ACE"} <= {row[0] for row in rows} else ""
    return (
        [
            *markdown_table(header, rows),
            *effects_table(effects_by),
            *cells.sentences(quarter, apart, cells.died(placed)),
        ]
        if rows
        else [cells.NO_RUNS]
    )


def _timing(study: Beyond, shown: Sequence[str]) -> list[str]:
    return [
        f"`{OURS}` with an exam of a tenth of its memory. The same number of replay epochs, of {EPOCHS} a task.",
        "",
        *_compared(study, {small: timing(study, small) for small in shown}, "replay epochs of a task", "evenly spread"),
    ]


def _adapting(study: Beyond, shown: Sequence[str]) -> list[str]:
    found = {small: adapting(study, small) for small in shown}
    lines: list[str] = []
    for small, schedules in found.items():
        if any(one.adaptive.n for one in schedules):
            lines += ["", f"**`{small}`**", "", *adapting_table(schedules)]
    return lines[1:] or [cells.NO_RUNS]


def _squared(study: Beyond, shown: Sequence[str]) -> list[str]:
    found = {small: squared(study, small) for small in shown}
    shares = [
        f"{100 * own.replay_batches / every.replay_batches:.0f} % of them on `{small}`"
        for small, (own, *_, every) in found.items()
        if own.replay_batches is not None and every.replay_batches
    ]
    said = [f"ER in every epoch has the most replay batches; `tfcsr-spaced` {cells.listed(shares)}."] if shares else []
    return [
        "The paper's variant of spaced replay, with the paper's recipe. ER that replays in the same epochs ends in the"
        " same weights. So the question is what the choice of epochs is worth.",
        "",
        *_compared(study, found, "replay", "`tfcsr-spaced`"),
        *(f"- {sentence}" for sentence in said),
    ]


def _ablation(study: Beyond, shown: Sequence[str]) -> list[str]:
    return _compared(study, {small: ablation(study, small) for small in shown}, "what is other", "all of it")


def _policies(study: Beyond, shown: Sequence[str]) -> list[str]:
    return _compared(study, {small: policies(study, small) for small in shown}, "memory policy", "herding")


PARTS: Mapping[str, Callable[[Beyond, Sequence[str]], list[str]]] = {
    "Is less replay enough?": _frontier,
    "When to replay?": _timing,
    "Who decides?": _adapting,
    "Does the paper's probe decide anything?": _squared,
    "What is each ingredient worth?": _ablation,
    "What should the memory keep?": _policies,
}


def _compared(study: Beyond, found: Mapping[str, Sequence[Outcome]], what: str, against: str) -> list[str]:
    """Ways of one kind, each against the first, on every benchmark; then what is the same on all of them."""
    known = {small: ways for small, ways in found.items() if any(way.n for way in ways)}
    if not known:
        return [cells.NO_RUNS]
    rows = []
    for ways in zip(*known.values(), strict=True):
        cell = [(with_interval(w.accuracy), cells.difference(w), with_interval(_along(study, w))) for w in ways]
        rows.append((ways[0].label, *(text for of_benchmark in cell for text in of_benchmark)))
    named = [(f"{way.label}, on `{small}`", way) for small, ways in known.items() for way in ways]
    columns = ("final accuracy %", f"against {against}, points", "accuracy %, mean over tasks")
    header = (what, *(f"{small}: {column}" for small in known for column in columns))
    return [*markdown_table(header, rows), *cells.sentences(_everywhere(known, against), cells.died(named))]


def _along(study: Beyond, way: Outcome) -> Estimate | None:
    return optional_estimate(along(study.of(way.name)).values())


def _everywhere(known: Mapping[str, Sequence[Outcome]], against: str) -> list[str]:
    """What is better or worse, and where: on all benchmarks, or on some."""
    _, *rest = zip(*known.values(), strict=True)  # against the first
    found = {ways[0].label: [change_verdict(way.difference) for way in ways] for ways in rest}
    where = "all of them" if len(known) > 1 else f"`{next(iter(known))}`"
    said = []
    for word in ("better", "worse"):
        labels = [label for label, words in found.items() if set(words) == {word}]
        said += [f"On {where} {word} than {against}: {'; '.join(labels)}."] if labels else []
    for place, small in enumerate(known):
        for word in ("better", "worse"):
            labels = [label for label, words in found.items() if words[place] == word and set(words) != {word}]
            said += [f"On `{small}`, not on {where}, {word} than {against}: {'; '.join(labels)}."] if labels else []
    nowhere = [label for label, words in found.items() if set(words) == {"open"}]
    return said + ([f"Nowhere measurably different from {against}: {'; '.join(nowhere)}."] if nowhere else [])
