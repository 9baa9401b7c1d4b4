"""How much replay is needed, and whether a schedule that adapts is worth it."""

from collections.abc import Mapping, Sequence

from tfcsr.beyond.arms import NAMES, OURS, REPLAYING
from tfcsr.beyond.outcomes import course
from tfcsr.beyond.replay import Adapting, Effects, Point, adapting, effects, frontier, quarter
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import QUARTER, change_verdict
from tfcsr.experiments.statistics import Estimate
from tfcsr.reporting.beyond import cells
from tfcsr.reporting.pages import markdown_table, with_interval


def frontier_lines(study: Beyond, where: str | None = None) -> list[str]:
    known = {method: frontier(study, method, where) for method in REPLAYING}
    missing = {NAMES[method]: ([p.label for p in points if not p.n], len(points)) for method, points in known.items()}
    return [
        *frontier_table(known),
        *effects_table({NAMES[method]: effects(study, method, where) for method in REPLAYING}),
        *cells.sentences(
            [quarter_said(method, points) for method, points in known.items()],
            _effects_said(effects(study, OURS, where)),
            _control_said(study) if where is None else "",
            cells.missing(missing),
            cells.died((f"{NAMES[p.method]}, {p.label}", p) for points in known.values() for p in points),
        ),
    ]


def frontier_table(known: Mapping[str, Sequence[Point]]) -> list[str]:
    """By method, each way to place replay that has runs."""
    header = (
        "method",
        "replay",
        "replay batches, % of every epoch's",
        "replayed images, %",
        "replayed images",
        "final accuracy %",
        "against every epoch, points",
        "verdict",
        "accuracy %, mean over tasks",
    )
    rows = [
        (
            NAMES[method],
            point.label + (" (control)" if point.control else ""),
            cells.percent(point.batches),
            cells.percent(point.images),
            cells.count(point.replayed),
            with_interval(point.accuracy),
            with_interval(point.difference, "+", without="–"),
            (point.verdict if point.n else "") or "–",
            with_interval(point.along, without="–"),
        )
        for method, points in known.items()
        for point in points
        if point.n
    ]
    return markdown_table(header, rows)


def effects_table(known: Mapping[str, Effects]) -> list[str]:
    """What differs between replay in every epoch and less of it, one thing at a time."""
    columns = {
        "less replay, the same new images": [own.less_replay for own in known.values()],
        "more new images, the same replay": [own.more_new for own in known.values()],
        "both: spaced against every epoch": [own.together for own in known.values()],
        "5 random epochs against spaced": [own.random for own in known.values()],
        "every fourth epoch against spaced": [own.fourth for own in known.values()],
    }
    columns = {name: found for name, found in columns.items() if any(found)}
    rows = [
        (name, *(with_interval(one, "+", without="–") for one in found))
        for name, *found in zip(known, *columns.values(), strict=True)
        if any(found)
    ]
    return ["", *markdown_table(("paired differences, points", *columns), rows)] if rows else []


def quarter_said(method: str, points: Sequence[Point]) -> str:
    target, name = quarter(points), NAMES[method]
    limit = f"{100 * QUARTER:g} % of the replay batches or fewer"
    if not any(point.when == "every" and point.n for point in points):
        return f"{name}: open, there is no run with replay in every epoch to compare with."
    if not target.tried:
        return f"{name}: open, there is no run with {limit}."
    if target.verdict == "met":
        return f"{name} loses nothing with {limit}: {'; '.join(map(cells.place, target.at_no_loss))}."
    if target.verdict == "not met":
        first, *more = target.tried
        return f"{name} loses with {limit}{', whenever they come' if more else f': {cells.place(first)}'}."
    return f"{name}: open whether it loses with {limit}."


def _effects_said(own: Effects) -> str:
    if own.less_replay is None or own.more_new is None:
        return ""
    text = (
        f"An epoch without replay has more new images. The two effects for `{OURS}`: replaying less is worth"
        f" {cells.points(own.less_replay)}, seeing more that is new {cells.points(own.more_new)}."
    )
    verdicts = change_verdict(own.less_replay), change_verdict(own.more_new)
    return text + (" Both are open." if verdicts == ("open", "open") else "")


def _control_said(study: Beyond) -> str:
    own = effects(study, OURS)
    if own.random is None:
        return ""

    def stand(difference: Estimate | None) -> str:
        return f"are {cells.compared(difference, 'better than', 'worse than')}"

    text = f"Random epochs {stand(own.random)} the spaced ones: {cells.points(own.random)}"
    if own.fourth is not None:
        text += f"; evenly spread ones {stand(own.fourth)} them: {cells.points(own.fourth)}"
    text += f" (`{OURS}`)."
    found = course(study, f"frontier/{OURS}/fourth", f"frontier/{OURS}/spaced")
    if found is not None:
        sides = cells.sides(found)
        text += (
            f" In the mean over the tasks evenly spread ones {stand(found.mean)} them:"
            f" {cells.points(found.mean)}{f'; {sides}' if sides else ''}."
        )
    return text


def adapting_lines(study: Beyond) -> list[str]:
    return adapting_table(adapting(study))


def adapting_table(found: Sequence[Adapting]) -> list[str]:
    """With what it says in words."""
    header = (
        "schedule, driven by the exam",
        "final accuracy %",
        "fixed, the same replay: final accuracy %",
        "difference, points",
        "replayed images",
        "fixed: replayed images",
        "memory checks",
        "fixed: memory checks",
        "verdict",
        "yoked: final accuracy %",
        "against yoked, points",
    )
    rows = [
        (
            one.label,
            with_interval(one.adaptive.accuracy),
            with_interval(one.fixed.accuracy),
            cells.difference(one.adaptive),
            cells.count(one.adaptive.replayed),
            cells.count(one.fixed.replayed),
            cells.count(one.adaptive.memory_checks),
            cells.count(one.fixed.memory_checks),
            one.verdict if one.matched else f"{one.verdict}: the replay differs",
            "–" if one.yoked is None else with_interval(one.yoked.accuracy),
            with_interval(one.own_exam, "+", without="–"),
        )
        for one in found
    ]
    by_verdict = {
        verdict: [one for one in found if one.verdict == verdict] for verdict in ("pays", "does not pay", "open")
    }
    said = [
        {
            "pays": "Adapting pays against evenly spread epochs",
            "does not pay": "Adapting does not pay against evenly spread epochs",
            "open": "It is open",
        }[verdict]
        + f" with {'; '.join(_with_points(one) for one in those)}."
        for verdict, those in by_verdict.items()
        if those
    ]
    return [
        *markdown_table(header, rows),
        *cells.sentences(
            "The fixed twin of a run replays in evenly spread epochs, so many that it replays as many images.",
            said,
            _yoked_said(found),
        ),
    ]


def _with_points(one: Adapting) -> str:
    difference = one.adaptive.difference
    return one.label if difference is None else f"{one.label}, {cells.points(difference)}"


def _yoked_said(found: Sequence[Adapting]) -> list[str]:
    """What is left of a gain when the epochs stay as they are, and only the exam is another's."""
    known = [one for one in found if one.own_exam is not None]
    if not known:
        return []
    words = {"better": "is worth something", "worse": "costs something", "open": "makes no measurable difference"}
    said = [f"with {one.label} it {words[change_verdict(one.own_exam)]}, {cells.points(one.own_exam)}" for one in known]
    return [
        "A yoked run replays in the very epochs that the exam of a run with another seed asked for: all in all as much,"
        f" and in the same tasks. What it lacks is the answer to its own exam: {'; '.join(said)}."
    ]
