"""Our own claims for a reader: a page with every table, and lines for a terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from tfcsr.beyond.arms import EPOCHS, FIELD, NAMES, OURS, PLAIN, RECIPE, SECTIONS, SMALL
from tfcsr.beyond.findings import (
    AIM,
    BINS,
    EVEN,
    MARGIN,
    METHODS,
    QUARTER,
    SOURCES,
    UPPER_BOUND,
    WANTED,
    Adapting,
    Honesty,
    Outcome,
    Point,
    Ranking,
    ablation,
    accuracy_rows,
    adapting,
    along,
    best_published,
    binned,
    change_verdict,
    choices,
    course,
    effects,
    exam_cost,
    field,
    frontier,
    herded,
    honesty,
    method_of,
    policies,
    quarter,
    ranking,
    reached,
    sections_with_runs,
    settings,
    timing,
)
from tfcsr.beyond.study import STUDY, Beyond
from tfcsr.experiments.record import Record
from tfcsr.experiments.statistics import FEWEST, Estimate, optional_estimate
from tfcsr.files import write_bytes
from tfcsr.paper.published import PUBLISHED
from tfcsr.reporting.beyond_figures import CAPTIONS, DRAWN
from tfcsr.reporting.figures import STYLE, save
from tfcsr.reporting.pages import bound, markdown_table, session_lines, with_interval
from tfcsr.reporting.words import capital, counted

PAGE = "beyond.md"
# The paper's own method with this memory.
PAPERS_BEST = "cifar/tfcsr-1000"
NO_RUNS = "No runs yet."
FEW = 3  # are listed
ALL_OUTPUTS = (
    f"Before the last task the runs of `{OURS}` were asked over all outputs, those of classes to come among them, of"
    " which its loss says nothing: its line is too low there. It no longer answers with those. The last point is right."
)
DIED = "collapsed (one answer to every image); they are in the mean."
HOW_TO_READ = (
    "**How to read it.** `± x` is half the 95 % confidence interval of the mean over n seeds (Student's t); fewer than"
    f" {FEWEST} seeds give none, and decide nothing. Differences are paired: seed by seed, over the seeds that"
    f" both have. *No loss*: the interval's lower end is above −{MARGIN:g} points; *loss*: its upper end is below 0;"
    f" *pays*: its lower end is above 0; *does not pay*: its upper end is below {MARGIN:g}; *better* and *worse*: it"
    " leaves 0 out; otherwise *open*. Intervals are 95 % each, not corrected for how many there are. A target is *met*"
    " when the mean reaches it."
)


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
        lines += SAID[section](study) if section in known else [NO_RUNS]
    lines += ["", "## How it was made", "", *session_lines(study.records)]
    return "\n".join(lines) + "\n"


def opening_lines(study: Beyond) -> list[str]:
    """How it was made, with which budget and recipe, as the runs' own specs say."""
    spec = next(iter(study.specs(f"accuracy/{OURS}").values()))
    missing, planned = len(study.missing()), len(study.plan())
    there = "" if not missing else f" {missing} of {counted(planned, 'run')} have yet to be made."
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
    recipe = _recipe(
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


def _recipe(fields: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> str:
    """Its settings; only those that another has otherwise."""
    shown = {name: value for name, value in fields.items() if beside is None or value != beside[name]}
    return ", ".join(f"`{name} {value}`" for name, value in shown.items())


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
            "; ".join(map(_at, target.at_no_loss or target.nearest)) or "no runs",
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


def _at(point: Point) -> str:
    return f"{_percent(point.batches)} % ({point.label}): {_points(point.difference)}"


def _points(difference: Estimate | None) -> str:
    return with_interval(difference, "+", " points", without="no pairs of runs")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def _count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _difference(row: Outcome) -> str:
    """Its cell of a table: a dash for the one that the others are held against, and where there is no pair."""
    return with_interval(row.difference, "+", without="–")


def _without_runs(rows: Iterable[Outcome]) -> list[str]:
    missing = [row.label for row in rows if row.n == 0]
    return [f"Without runs yet: {'; '.join(missing)}."] if missing else []


def _collapsed(rows: Iterable[Outcome]) -> list[str]:
    died = [f"{row.collapsed} of {counted(row.n, 'run')} of {row.label}" for row in rows if row.collapsed]
    return [f"{_list(died)} {DIED}"] if died else []


def _sentences(*parts: str | Iterable[str]) -> list[str]:
    """Sentences as a list, after an empty line."""
    said = [s for part in parts for s in ([part] if isinstance(part, str) else part) if s]
    return ["", *(f"- {sentence}" for sentence in said)] if said else []


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
            _difference(row),
            with_interval(optional_estimate(along(study.of(row.name)).values())),
            _count(row.steps),
            _count(row.replay_batches),
            _count(row.replayed),
        )
        for row in rows
    ]
    steps = {row.steps for row in rows if row.steps is not None}
    published = f"; the paper's best is {PUBLISHED[PAPERS_BEST].curve[-1]:g} % (one run)" if study.data is None else ""
    joint = next(row for row in rows if method_of(row.name) == UPPER_BOUND)
    return [
        *markdown_table(header, table),
        *_sentences(
            f"`{OURS}` ends at {with_interval(ours.accuracy, unit=' %')}{published}." if ours.n else "",
            _lead(ranking(study, "accuracy")),
            _course_said(study),
            f"`{UPPER_BOUND}` keeps all data: an upper bound, not a competitor." if joint.n else "",
            ALL_OUTPUTS if _too_low(study.of(f"accuracy/{OURS}").values()) else "",
            "All took the same number of steps." if len(steps) == 1 else "The numbers of steps differ.",
            _without_runs(rows),
            _collapsed(rows),
        ),
    ]


def _too_low(runs: Iterable[Record]) -> bool:
    """Whether a curve is, before its last point."""
    asked = [record.all_outputs for record in runs]
    return bool(asked) and all(asked)


def _lead(found: Ranking) -> str:
    if found.rival is None or found.lead is None:
        return ""
    rival, verdict = NAMES[found.rival], change_verdict(found.lead)
    word = {"better": "ahead of", "worse": "behind", "open": "not told apart from"}[verdict]
    return f"`{OURS}` is {word} the best of the others, {rival}: {_points(found.lead)}."


def _course_said(study: Beyond) -> str:
    """The end is not all: a network is used all along."""
    rival = ranking(study, "accuracy").rival
    found = None if rival is None else course(study, f"accuracy/{OURS}", f"accuracy/{rival}")
    if rival is None or found is None:
        return ""
    word = {"better": "higher than", "worse": "lower than", "open": "not told apart from"}[change_verdict(found.mean)]
    text = f"Its mean over the tasks is {word} that of {NAMES[rival]}: {_points(found.mean)}"
    places = [
        f"{side} after task {_list([str(n) for n in tasks])}"
        for side, tasks in (("behind", found.behind), ("ahead", found.ahead))
        if tasks
    ]
    return text + (f"; it is {', and '.join(places)}." if places else ".")


def frontier_lines(study: Beyond) -> list[str]:
    known = {method: frontier(study, method) for method in METHODS}
    header = (
        "method",
        "replay",
        "replay batches, % of every epoch's",
        "replayed images, %",
        "replayed images",
        "final accuracy %",
        "against every epoch, points",
        "verdict",
    )
    rows = [
        (
            NAMES[method],
            point.label + (" (control)" if point.control else ""),
            _percent(point.batches),
            _percent(point.images),
            _count(point.replayed),
            with_interval(point.accuracy),
            with_interval(point.difference, "+", without="–"),
            (point.verdict if point.n else "") or "–",
        )
        for method, points in known.items()
        for point in points
        if point.n
    ]
    two: list[tuple[str, ...]] = []
    for method in METHODS:
        own = effects(study, method)
        found = (own.less_replay, own.more_new, own.together, own.random, own.fourth)
        if any(found):
            two.append((NAMES[method], *(with_interval(one, "+", without="–") for one in found)))
    columns = (
        "paired differences, points",
        "less replay, the same new images",
        "more new images, the same replay",
        "both: spaced against every epoch",
        "5 random epochs against spaced",
        "every fourth epoch against spaced",
    )
    missing = {NAMES[method]: ([p.label for p in points if not p.n], len(points)) for method, points in known.items()}
    return [
        *markdown_table(header, rows),
        *(["", *markdown_table(columns, two)] if two else []),
        *_sentences(
            [_quarter_said(method, points) for method, points in known.items()],
            _effects_said(study),
            _control_said(study),
            _missing_said(missing),
        ),
    ]


def _missing_said(missing: Mapping[str, tuple[Sequence[str], int]]) -> list[str]:
    """What has no runs yet, by the method: a few by their names, many by their number, of so many."""
    return [
        f"Without runs yet: {name}, {'; '.join(labels) if len(labels) <= FEW else f'{len(labels)} of {of} rows'}."
        for name, (labels, of) in missing.items()
        if labels
    ]


def _quarter_said(method: str, points: Sequence[Point]) -> str:
    target, name = quarter(points), NAMES[method]
    limit = f"{100 * QUARTER:g} % of the replay batches or fewer"
    if not any(point.when == "every" and point.n for point in points):
        return f"{name}: open, there is no run with replay in every epoch to compare with."
    if not target.tried:
        return f"{name}: open, there is no run with {limit}."
    if target.verdict == "met":
        return f"{name} loses nothing with {limit}: {'; '.join(map(_at, target.at_no_loss))}."
    if target.verdict == "not met":
        return f"{name} loses with {limit}, whenever they come."
    return f"{name}: open whether it loses with {limit}."


def _effects_said(study: Beyond) -> str:
    own = effects(study, OURS)
    if own.less_replay is None or own.more_new is None:
        return ""
    text = (
        f"An epoch without replay has more new images. Told apart for `{OURS}`: replaying less is worth"
        f" {_points(own.less_replay)}, seeing more that is new {_points(own.more_new)}."
    )
    verdicts = change_verdict(own.less_replay), change_verdict(own.more_new)
    return text + (" Both are open." if verdicts == ("open", "open") else "")


def _control_said(study: Beyond) -> str:
    own = effects(study, OURS)
    if own.random is None:
        return ""
    words = {"better": "are better than", "worse": "are worse than", "open": "are not told apart from"}
    text = f"Random epochs {words[change_verdict(own.random)]} the spaced ones: {_points(own.random)}"
    if own.fourth is not None:
        text += f"; evenly spread ones {words[change_verdict(own.fourth)]} them: {_points(own.fourth)}"
    return text + f" (`{OURS}`)."


def adapting_lines(study: Beyond) -> list[str]:
    return _adapting_lines(adapting(study))


def _adapting_lines(found: Sequence[Adapting]) -> list[str]:
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
            _difference(one.adaptive),
            _count(one.adaptive.replayed),
            _count(one.fixed.replayed),
            _count(one.adaptive.memory_checks),
            _count(one.fixed.memory_checks),
            one.verdict if one.matched else f"{one.verdict}: the replay differs",
            "–" if one.yoked is None else with_interval(one.yoked.accuracy),
            with_interval(one.own_exam, "+", without="–"),
        )
        for one in found
    ]
    by_verdict = {
        verdict: [one.label for one in found if one.verdict == verdict] for verdict in ("pays", "does not pay", "open")
    }
    said = [
        {
            "pays": f"Adapting pays against evenly spread epochs with {'; '.join(labels)}.",
            "does not pay": f"Adapting does not pay with {'; '.join(labels)}: it gains less than {MARGIN:g} points.",
            "open": f"It is open with {'; '.join(labels)}.",
        }[verdict]
        for verdict, labels in by_verdict.items()
        if labels
    ]
    return [
        *markdown_table(header, rows),
        *_sentences(
            "The fixed twin of a run replays in evenly spread epochs, so many that it replays as many images.",
            said,
            _yoked_said(found),
        ),
    ]


def _yoked_said(found: Sequence[Adapting]) -> list[str]:
    """What is left of a gain when the epochs stay as they are, and only the exam is another's."""
    known = [one for one in found if one.own_exam is not None]
    if not known:
        return []
    words = {"better": "is worth something", "worse": "costs something", "open": "makes no difference that is told"}
    told = [f"with {one.label} it {words[change_verdict(one.own_exam)]}, {_points(one.own_exam)}" for one in known]
    return [
        "A yoked run replays in the very epochs that the exam of a run with another seed asked for: all in all as much,"
        f" and in the same tasks. What it lacks is the answer to its own exam: {'; '.join(told)}."
    ]


def timing_lines(study: Beyond) -> list[str]:
    """Of each benchmark: where the same replay is placed, then who decides."""
    lines = [
        f"`{OURS}` with an exam of a tenth of its memory, {EPOCHS} epochs a task. First, the same number of replay"
        " epochs, placed by lists; then by schedules that the exam drives."
    ]
    alike: dict[str, set[str]] = {}
    for small in SMALL:
        ways, driven = timing(study, small), adapting(study, f"timing/{small}")
        if not any(way.n for way in ways) and not any(one.adaptive.n for one in driven):
            continue
        for way in ways:
            alike.setdefault(way.label, set()).add(_word(way))
        rows = [
            (
                way.label,
                with_interval(way.accuracy),
                _difference(way),
                "–" if way.name.endswith(EVEN) else _word(way),
                with_interval(optional_estimate(along(study.of(way.name)).values())),
            )
            for way in ways
        ]
        header = (
            "replay epochs of a task",
            "final accuracy %",
            "against evenly spread, points",
            "verdict",
            "accuracy %, mean over tasks",
        )
        lines += ["", f"**{_setting(study, f'timing/{small}/{EVEN}')}**", "", *markdown_table(header, rows), ""]
        lines += _adapting_lines(driven)
    everywhere = {word: [label for label, found in alike.items() if found == {word}] for word in ("better", "worse")}
    said = [f"{word} than evenly spread epochs: {'; '.join(ways)}" for word, ways in everywhere.items() if ways]
    return [*lines, "", f"On all of them {'. And '.join(said)}."] if said else lines


def exam_lines(study: Beyond) -> list[str]:
    found = [honesty(study, source, method) for source in SOURCES for method in SOURCES[source][1]]
    header = (
        "asked",
        "method",
        "questions a class",
        "correlation, per class",
        "an honest one of that size would have",
        "recall − accuracy, points",
        "the same at the end",
        "error of the whole, points",
        "95 % interval covers the accuracy",
    )
    rows = [
        (
            SOURCES[one.source][0],
            NAMES[one.method],
            "–" if one.asked is None else f"{one.asked:.1f}",
            with_interval(one.correlation, without="no runs" if not one.n else "not defined"),
            "–" if one.honest_correlation is None else f"{one.honest_correlation.mean:.2f}",
            with_interval(one.bias, "+", without="–"),
            with_interval(one.bias_at_end, "+", without="–"),
            with_interval(one.error, without="–"),
            f"{one.covered} of {one.moments}" if one.moments else "–",
        )
        for one in found
    ]
    arms = [arm for _, arms in SOURCES.values() for arm in arms.values()]
    otherwise = any(record.all_outputs for arm in arms for record in study.of(arm).values())
    costs = [exam_cost(study, method) for method in SOURCES["exam"][1]]
    paid = [f"{NAMES[cost.method]} {_points(cost.difference)}" for cost in costs if cost.difference is not None]
    return [
        "After each task the memory is asked what it recalls of each class seen so far, and the test data are asked the"
        " same. Recall is with the choice restricted to the classes in the memory, which are those seen; accuracy is by"
        " the method's own answers. Intervals of the whole are Wilson's; a moment is a run after a task.",
        "",
        *markdown_table(header, rows),
        *_bias_table(found),
        *_bin_table(found),
        *_sentences(
            [_honesty_said(one) for one in found if one.n],
            f"What an exam costs in accuracy, paired: {'; '.join(paid)}." if paid else "",
            f"Runs of `{OURS}` that were asked over all outputs count at the end alone." if otherwise else "",
        ),
    ]


def _name(one: Honesty) -> str:
    return f"{capital(SOURCES[one.source][0])}, {NAMES[one.method]}"


def _bias_table(found: Sequence[Honesty]) -> list[str]:
    tasks = max((len(one.bias_after) for one in found), default=0)
    if not tasks:
        return []
    rows = [
        (_name(one), *("–" if value is None else f"{value.mean:+.1f}" for value in one.bias_after))
        for one in found
        if len(one.bias_after) == tasks
    ]
    header = ("recall − accuracy, points, after task", *map(str, range(1, tasks + 1)))
    return ["", *markdown_table(header, rows)]


def _bin_table(found: Sequence[Honesty]) -> list[str]:
    known = [one for one in found if one.n]
    parts = [{(part.low, part.high): part for part in binned(one.pairs)} for one in known]
    rows = []
    for low, high in BINS:
        own = [part.get((low, high)) for part in parts]
        cells = ("–" if b is None else f"{b.recall:.1f} at {b.accuracy:.1f} ({b.pairs:,})" for b in own)
        rows.append((f"{low} to {high}", *cells))
    header = ("test accuracy %: mean recall at mean accuracy (classes)", *map(_name, known))
    return ["", *markdown_table(header, rows)] if known else []


def _honesty_said(one: Honesty) -> str:
    if one.n < FEWEST or one.bias is None:
        return f"{_name(one)}: open, {counted(one.n, 'run')}."
    verdict = change_verdict(one.bias)
    word = {"better": "too high", "worse": "too low", "open": "not biased as far as can be told"}[verdict]
    text = (
        f"{_name(one)}: recall is {word}, {_points(one.bias)}. It misses the test accuracy over all classes by"
        f" {with_interval(one.error, unit=' points')}; its 95 % interval covers that"
        f" {100 * one.covered / one.moments:.0f} % of the time."
    )
    if one.correlation is not None and one.honest_correlation is not None:
        text += (
            f" Class by class it correlates with the test accuracy by {with_interval(one.correlation)}, where"
            f" {one.honest_correlation.mean:.2f} is to be expected of an honest one that asks so little."
        )
    return text


def ablation_lines(study: Beyond) -> list[str]:
    rows = ablation(study)
    arms = [row for row in rows[1:] if row.difference is not None and change_verdict(row.difference) != "open"]
    worse = sorted((row for row in arms if row.difference and row.difference.mean < 0), key=_mean_difference)
    better = sorted((row for row in arms if row.difference and row.difference.mean > 0), key=_mean_difference)
    opened = [row.label for row in rows[1:] if row.n and change_verdict(row.difference) == "open"]
    costs = [f"{row.label}, {_points(row.difference)}" for row in worse]
    gains = [f"{row.label}, {_points(row.difference)}" for row in reversed(better)]
    return [
        *markdown_table(
            ("what is other", "final accuracy %", "against all of it, points", "verdict"),
            [
                (row.label, with_interval(row.accuracy), _difference(row), _word(row) if i else "–")
                for i, row in enumerate(rows)
            ],
        ),
        *_sentences(
            f"It costs accuracy, most first: {'; '.join(costs)}." if costs else "",
            f"It gains accuracy: {'; '.join(gains)}." if gains else "",
            f"Open: {'; '.join(opened)}." if opened else "",
            _without_runs(rows),
            _collapsed(rows),
        ),
    ]


def _mean_difference(row: Outcome) -> float:
    return 0.0 if row.difference is None else row.difference.mean


def _word(row: Outcome) -> str:
    return change_verdict(row.difference) if row.n else "–"


def policy_lines(study: Beyond) -> list[str]:
    rows, others = policies(study), herded(study)
    said = {word: [row.label for row in rows[1:] if _word(row) == word] for word in ("better", "worse", "open")}
    table = [
        (row.label, with_interval(row.accuracy), _difference(row), _word(row) if i else "–")
        for i, row in enumerate(rows)
        if row.n
    ]
    beside = [
        (row.label, with_interval(row.accuracy), _difference(row), with_interval(lead, "+", without="–"))
        for row, lead in others
        if row.n
    ]
    header = (
        "with a herded memory",
        "final accuracy %",
        "against class-balanced, points",
        f"{OURS} is ahead by, points",
    )
    return [
        *(markdown_table(("memory policy", "final accuracy %", "against herding, points", "verdict"), table)),
        *(["", *markdown_table(header, beside)] if beside else []),
        *_sentences(
            f"Better than herding: {_list(said['better'])}." if said["better"] else "",
            f"Worse than herding: {_list(said['worse'])}." if said["worse"] else "",
            f"Not told apart from herding: {_list(said['open'])}." if said["open"] else "",
            _without_runs([*rows, *(row for row, _ in others)]),
            _collapsed([*rows, *(row for row, _ in others)]),
        ),
    ]


def field_lines(study: Beyond) -> list[str]:
    found = field(study)
    specs = {one.memory: next(iter(study.specs(f"field/{one.memory}/{one.way}").values())) for one in found}
    # On other data the memory is what it is there.
    sizes = {spec.buffer_capacity: memory for memory, spec in specs.items()}
    memories = list(sizes.values())
    found = [one for one in found if one.memory in memories]
    by_way = {way: [one for one in found if one.way == way] for way in dict.fromkeys(one.way for one in found)}
    rows = [(own[0].label, *(with_interval(one.accuracy) for one in own), "here") for own in by_way.values()]
    if study.data is None:
        for value in FIELD:
            cells = (f"{value.accuracy[m]:g}" if m in value.accuracy else "–" for m in memories)
            rows.append((value.method, *cells, value.source))
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
    return [*lines, *_sentences(said, "Published values are of others' code and others' recipes.")]


def elsewhere_lines(study: Beyond) -> list[str]:
    rows: list[tuple[str, ...]] = []
    said, usual = [], ranking(study, "accuracy")
    for setting in settings():
        found, title = ranking(study, setting), _setting(study, f"{setting}/{OURS}")
        if title in [row[0] for row in rows]:  # on other data settings may coincide
            continue
        places = [(str(number), place) for number, place in enumerate(found.places, start=1)]
        for shown, place in (*places, ("bound", found.bound)):
            if place.n:
                rows.append((title, shown, place.label, with_interval(place.accuracy), _difference(place)))
        said.append(_ranking_said(found, title, usual))
    return [
        *markdown_table(("setting", "place", "method", "final accuracy %", "against ER, points"), rows),
        *_sentences(said),
    ]


def _setting(study: Beyond, arm: str) -> str:
    spec = next(iter(study.specs(arm).values()))
    few = f"{spec.max_per_class:,} images a class, " if spec.max_per_class else ""
    return (
        f"{spec.benchmark}, {few}{spec.tasks} tasks of {spec.epochs} epochs, {spec.model},"
        f" memory {spec.buffer_capacity:,}"
    )


def _ranking_said(found: Ranking, title: str, usual: Ranking) -> str:
    if not found.order:
        return f"{title}: no runs yet."
    if OURS not in found.order:
        return f"{title}: no runs of `{OURS}` yet."
    place, of = found.order.index(OURS) + 1, len(found.order)
    text = f"{title}: `{OURS}` is number {place} of {of}"
    if found.lead is not None and found.rival is not None:
        verdict = {"better": "ahead of", "worse": "behind", "open": "open against"}[change_verdict(found.lead)]
        text += f", {verdict} {NAMES[found.rival]}: {_points(found.lead)}"
    if found.complete and usual.complete:
        text += "; the order is that at the paper's budget" if found.order == usual.order else "; the order is another"
    return f"{text}."


def choice_lines(study: Beyond) -> list[str]:
    found = choices(study)
    rows = [
        (
            NAMES.get(one.method, one.method),
            one.label,
            "–" if one.held_out is None else f"{one.held_out:.2f}",
            str(one.n),
            "chosen" if one.chosen else "",
        )
        for tried in found.values()
        for one in tried
        if one.n
    ]
    missing = {
        NAMES[method]: ([one.label for one in tried if not one.n], len(tried)) for method, tried in found.items()
    }
    said = []
    for method, tried in found.items():
        known = [one for one in tried if one.held_out is not None]
        taken = next((one for one in known if one.chosen), None)
        if taken is None or len(known) < 2:
            continue
        best = max(known, key=lambda one: one.held_out or 0.0)
        gap = (best.held_out or 0.0) - (taken.held_out or 0.0)
        name = NAMES.get(method, method)
        if gap <= 0:
            said.append(f"{name}: what was chosen, “{taken.label}”, has the highest held-out accuracy of {len(known)}.")
        else:
            said.append(f"{name}: “{taken.label}” was chosen; “{best.label}” has {gap:+.2f} points on held-out data.")
    return [
        "Trained on 90 % of the training data, judged on the rest, with a seed that no other run has. Test data have"
        " no part in it. One run each: differences of a point mean little. The plain recipe is"
        f" {_recipe(PLAIN, RECIPE)}.",
        "",
        *markdown_table(("method", "setting", "held-out accuracy %", "n", ""), rows),
        *_sentences(said, _missing_said(missing)),
    ]


SAID: Mapping[str, Callable[[Beyond], list[str]]] = {
    "accuracy": accuracy_lines,
    "frontier": frontier_lines,
    "adapting": adapting_lines,
    "timing": timing_lines,
    "exam": exam_lines,
    "ablation": ablation_lines,
    "policies": policy_lines,
    "field": field_lines,
    "elsewhere": elsewhere_lines,
    "choices": choice_lines,
}


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
        yield f"frontier: a quarter of the replay batches or fewer at no loss: {found.verdict}; {_at(least)}"
    judged = [f"{one.label} {one.verdict}" for one in adapting(study) if one.adaptive.n]
    if judged:
        yield f"adapting: {'; '.join(judged)}"
