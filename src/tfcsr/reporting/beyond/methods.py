"""The methods beside each other: at the paper's budget, beside what others published, and elsewhere."""

from collections.abc import Iterable

from tfcsr.beyond.arms import BY_ITSELF, CNN, FIELD, IN_FIELD, LONG_WITH_CNN, NAMES, OURS, WITH_CNN
from tfcsr.beyond.methods import UPPER_BOUND, Ranking, accuracy_rows, best_published, field, ranking, settings
from tfcsr.beyond.outcomes import along, course, method_of, paired
from tfcsr.beyond.replay import frontier, long_tasks
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import change_verdict
from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import optional_estimate
from tfcsr.paper.published import PUBLISHED
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.beyond.replay import frontier_lines, frontier_table, quarter_said
from tfcsr.reporting.pages import markdown_table, with_interval
from tfcsr.reporting.words import counted

# The paper's own method with this memory.
PAPERS_BEST = "cifar/tfcsr-1000"
ALL_OUTPUTS = (
    f"Before the last task the runs of `{OURS}` were asked over all outputs, those of classes to come among them, of"
    " which its loss says nothing: its line is too low there. It no longer answers with those. The last point is right."
)


def accuracy_lines(study: Beyond) -> list[str]:
    rows = accuracy_rows(study)
    ours = next(row for row in rows if method_of(row.name) == OURS)
    header = (
        "method",
        "final accuracy %",
        "against ER, points",
        "accuracy %, mean over tasks",
        "steps",
        "replay batches",
        "replayed images",
    )
    table = [
        (
            row.label,
            with_interval(row.accuracy),
            cells.difference(row),
            with_interval(optional_estimate(along(study.of(row.name)).values())),
            cells.count(row.steps),
            cells.count(row.replay_batches),
            cells.count(row.replayed),
        )
        for row in rows
    ]
    steps = {row.steps for row in rows if row.steps is not None}
    published = f"; the paper's best is {PUBLISHED[PAPERS_BEST].curve[-1]:g} % (one run)" if study.data is None else ""
    joint = next(row for row in rows if method_of(row.name) == UPPER_BOUND)
    return [
        *markdown_table(header, table),
        *cells.sentences(
            f"`{OURS}` ends at {with_interval(ours.accuracy, unit=' %')}{published}." if ours.n else "",
            _lead(ranking(study, "accuracy")),
            _course_said(study),
            f"`{UPPER_BOUND}` keeps all data: an upper bound, not a competitor." if joint.n else "",
            ALL_OUTPUTS if _too_low(study.of(f"accuracy/{OURS}").values()) else "",
            "All took the same number of steps." if len(steps) == 1 else "The numbers of steps differ.",
            cells.without_runs(rows),
            cells.collapsed(rows),
        ),
    ]


def _too_low(runs: Iterable[Record]) -> bool:
    """Whether a curve is, before its last point."""
    asked = [record.all_outputs for record in runs]
    return bool(asked) and all(asked)


def _lead(found: Ranking) -> str:
    if found.rival is None or found.lead is None:
        return ""
    stands = cells.compared(found.lead, "ahead of", "behind")
    return f"`{OURS}` is {stands} the best of the others, {NAMES[found.rival]}: {cells.points(found.lead)}."


def _course_said(study: Beyond) -> str:
    """The end is not all: a network is used all along."""
    rival = ranking(study, "accuracy").rival
    found = None if rival is None else course(study, f"accuracy/{OURS}", f"accuracy/{rival}")
    if rival is None or found is None:
        return ""
    stands = cells.compared(found.mean, "higher than", "lower than")
    text = f"Its mean over the tasks is {stands} that of {NAMES[rival]}: {cells.points(found.mean)}"
    sides = cells.sides(found)
    return text + (f"; it is {sides}." if sides else ".")


def field_lines(study: Beyond) -> list[str]:
    found = field(study)
    specs = {one.memory: next(iter(study.specs(f"field/{one.memory}/{one.way}").values())) for one in found}
    # On other data the memory is what it is there.
    sizes = {spec.buffer_capacity: memory for memory, spec in specs.items()}
    memories = list(sizes.values())
    found = [one for one in found if one.memory in memories]
    labels = {one.way: one.label for one in found}
    known = {(one.way, one.memory): with_interval(one.accuracy) for one in found}
    rows = [(label, *(known.get((way, m), "–") for m in memories), "here") for way, label in labels.items()]
    if study.data is None:
        for value in FIELD:
            published = (f"{value.accuracy[m]:g}" if m in value.accuracy else "–" for m in memories)
            rows.append((value.method, *published, value.source))
    lines = [
        f"{specs[memories[0]].epochs} epochs a task, every new example used in each, with replay or without.",
        "",
        *markdown_table(("method", *(f"memory {size:,}: final accuracy %" for size in sizes), "source"), rows),
    ]
    if study.data is not None:
        return lines
    said = []
    for one in found:
        best = best_published(one.memory)
        if one.accuracy is None or best is None:
            continue
        gap = one.accuracy.mean - best.accuracy[one.memory]
        judged = "open" if one.verdict == "open" else f"{one.verdict} (wanted: {one.wanted:g} %)"
        said.append(
            f"Memory {one.memory:,}, {one.label}: {judged}; {gap:+.2f} points to the best published, {best.method} with"
            f" {best.accuracy[one.memory]:g} %."
        )
    beside = [
        _beside_every(study, f"field/{one.memory}", one.way, f"Memory {one.memory:,}, {one.label}")
        for one in found
        if "every" in IN_FIELD[one.memory]
    ]
    later = [
        f"Memory {one.memory:,}, {one.label}: thought of once the test accuracy of these two was known after each task."
        for one in found
        if one.way == "eased" and one.accuracy is not None
    ]
    return [*lines, *cells.sentences(said, beside, later, "Published values are of others' code and others' recipes.")]


def _beside_every(study: Beyond, place: str, way: str, name: str) -> str:
    """A way with less replay, held against replay in every epoch."""
    arms = f"{place}/{way}", f"{place}/every"
    less, every = (study.row(arm).mean("replay_batches") for arm in arms)
    difference, found = paired(study, *arms), course(study, *arms)
    if way == "every" or difference is None or less is None or not every:
        return ""
    text = (
        f"{name}, with {100 * less / every:.0f} % of the replay batches, ends"
        f" {cells.points(difference)} against replay in every epoch"
    )
    if found is None:
        return f"{text}."
    sides = cells.sides(found)
    text += f", in the mean over the tasks {cells.points(found.mean)}"
    return text + (f"; it is {sides}." if sides else ".")


def elsewhere_lines(study: Beyond) -> list[str]:
    rows: list[tuple[str, ...]] = []
    said, usual = [], ranking(study, "accuracy")
    for setting in settings():
        found, title = ranking(study, setting), cells.setting(study, f"{setting}/{OURS}")
        if title in [row[0] for row in rows]:  # on other data settings may coincide
            continue
        places = [(str(number), place) for number, place in enumerate(found.places, start=1)]
        for shown, place in (*places, ("bound", found.bound)):
            if place.n:
                rows.append((title, shown, place.label, with_interval(place.accuracy), cells.difference(place)))
        said += [_ranking_said(found, title, usual), *_lost_said(study, found, title)]
    return [
        *markdown_table(("setting", "place", "method", "final accuracy %", "against ER, points"), rows),
        *cells.sentences(said),
        *_less_replay(study),
        *_long_tasks(study),
    ]


def _less_replay(study: Beyond) -> list[str]:
    """What less replay costs another network; nothing where it is no other, as on other data, or nothing was tried."""
    setting = cells.setting(study, f"elsewhere/{CNN}/{OURS}")
    asked = any(p.n and p.when != BY_ITSELF[m] for m in WITH_CNN for p in frontier(study, m, CNN))
    if not asked or setting == cells.setting(study, f"accuracy/{OURS}"):
        return []
    lines = frontier_lines(study, CNN)
    return ["", "### Is less replay enough for another network?", "", f"{setting}.{_machines(study)}", "", *lines]


def _long_tasks(study: Beyond) -> list[str]:
    """The field's question of another network; nothing where it is no other, or nothing was tried."""
    points = long_tasks(study)
    setting = cells.setting(study, f"{LONG_WITH_CNN}/spaced")
    tried = [point for point in points if point.n]
    if not tried or setting == cells.setting(study, f"field/{max(IN_FIELD)}/spaced"):
        return []
    steps = {p.label: study.row(f"{LONG_WITH_CNN}/{p.when}").mean("optimizer_steps") for p in tried}
    return [
        "",
        "### And in longer tasks?",
        "",
        f"{setting}, every new example used in each epoch.",
        "",
        *frontier_table({OURS: points}),
        *cells.sentences(
            quarter_said(OURS, points),
            [_beside_every(study, LONG_WITH_CNN, p.when, f"{OURS}, {p.label}") for p in tried],
            f"Steps of a run: {'; '.join(f'{label}, {cells.count(number)}' for label, number in steps.items())}.",
            cells.missing({OURS: ([p.label for p in points if not p.n], len(points))}),
            cells.died((p.label, p) for p in points),
        ),
    ]


def _machines(study: Beyond) -> str:
    """Seeds are paired across machines too; a reader is to know that."""
    arms = (f"elsewhere/{CNN}/frontier/{method}/{when}" for method, ways in WITH_CNN.items() for when in ways)
    runs = [record for arm in arms for record in study.of(arm).values()]
    on_cpu = sum(record.environment.get("gpu") is None for record in runs)
    mixed = f" {on_cpu} of these {len(runs)} runs are of CPU cores, the others of a GPU; seeds are paired all the same."
    return mixed if 0 < on_cpu < len(runs) else ""


def _ranking_said(found: Ranking, title: str, usual: Ranking) -> str:
    if not found.order:
        return f"{title}: no runs yet."
    if OURS not in found.order:
        return f"{title}: no runs of `{OURS}` yet."
    place, of = found.order.index(OURS) + 1, len(found.order)
    text = f"{title}: `{OURS}` is number {place} of {of}"
    if found.lead is not None and found.rival is not None:
        verdict = {"better": "ahead of", "worse": "behind", "open": "open against"}[change_verdict(found.lead)]
        text += f", {verdict} {NAMES[found.rival]}: {cells.points(found.lead)}"
    if found.complete and usual.complete:
        text += "; the order is that at the paper's budget" if found.order == usual.order else "; the order is another"
    return f"{text}."


def _lost_said(study: Beyond, found: Ranking, title: str) -> list[str]:
    """A mean over runs of which some lost everything is one of two kinds: the reader should know."""
    lost = [
        f"{place.newest_alone} of {counted(place.n, 'run')} of {place.label}"
        for place in found.places
        if place.newest_alone
    ]
    if not lost:
        return []
    tasks = next(iter(study.specs(f"{found.setting}/{OURS}").values())).tasks
    return [f"{title}: {cells.listed(lost)} ended at {100 / tasks:.3g} % or less, what the newest task alone is worth."]
