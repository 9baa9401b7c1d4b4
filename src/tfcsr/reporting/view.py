"""What the page shows, as one JSON document: the report holds it, the live page gets it anew whenever it changes."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import tfcsr
from tfcsr.experiments.reading import Results, Run
from tfcsr.experiments.statistics import Estimate, optional_estimate
from tfcsr.experiments.told import Probe
from tfcsr.reporting.series import COSTS, Group, Series, example, grouped, shown
from tfcsr.reporting.words import beware, compared, found, headline, rough_time

LONGEST_NAME = 40  # of a class: a hundred of them stand in a column


@dataclass(frozen=True)
class Limits:
    """How much is shown. Halved until the page has room for it; what is left out is said."""

    tasks: int = 50
    classes: int = 100
    series: int = 64
    probes: int = 8000
    cells: int = 120_000  # of what the probes found of each class
    runs: int = 4000

    def halved(self) -> "Limits":
        return Limits(*(max(1, value // 2) for value in vars(self).values()))


def document(results: Results, *, live: bool = False, room: int = 10**9) -> str:
    """As JSON text of at most `room` bytes, in which nothing can be taken for HTML."""
    limits = Limits()
    groups = grouped(results.runs, results.baseline)
    while True:
        text = _encoded(_document(results, groups, limits, live))
        if len(text) <= room or limits == limits.halved():
            return text
        limits = limits.halved()


def _encoded(values: Any) -> str:
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))  # in ASCII: U+2028 and its like are escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _document(results: Results, groups: Sequence[Group], limits: Limits, live: bool) -> dict[str, Any]:
    runs = results.runs
    left_out = _Left()
    budget = _Budget(limits)
    shown_groups = [_group(group, limits, budget, left_out) for group in groups]
    home = {
        id(run): (i, j)
        for i, group in enumerate(groups)
        for j, one in enumerate(group.series[: limits.series])
        for run in one.runs
    }
    # What moves first: nobody looks for the running one below a thousand that are complete.
    order = ("running", "failed", "damaged", "stopped", "complete")
    known = {run.name for run in runs}
    # Runs, and those of which nothing but an error is known.
    entries: list[tuple[str, Run | str]] = [(_state(run, results.errors), run) for run in runs]
    entries += [("failed", name) for name in results.errors if name not in known]
    entries.sort(key=lambda entry: order.index(entry[0]))
    if len(entries) > limits.runs:
        left_out.add(f"{len(entries) - limits.runs} of {len(entries)} runs are not listed")
    counted = Counter(state for state, _ in entries)
    counts = {state: counted[state] for state in order if counted[state]}
    rows = [
        _run(one, home.get(id(one)), results.errors)
        if isinstance(one, Run)
        else {"name": shown(one), "state": "failed", "words": shown(results.errors[one], 400)}
        for _, one in entries[: limits.runs]
    ]
    return {
        "folder": shown(str(results.folder.resolve().name)),
        "path": shown(str(results.folder), 300),
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "version": tfcsr.__version__,
        "live": live,
        "counts": counts,
        "headline": headline(counts, results.outlook()),
        "groups": shown_groups,
        "runs": rows,
        "left_out": left_out.said,
    }


class _Left:
    def __init__(self) -> None:
        self.said: list[str] = []

    def add(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)


class _Budget:
    def __init__(self, limits: Limits) -> None:
        self.probes, self.cells = limits.probes, limits.cells


def class_names(names: Sequence[str]) -> dict[int, str]:
    """What each class is called, by its label. Nothing where names only repeat the labels; a name of two gets them."""
    if all(name == str(label) for label, name in enumerate(names)):
        return {}
    # A number alone would be taken for a count.
    kind = "class " if all(name.isdecimal() for name in names) else ""
    called = {label: kind + text for label, name in enumerate(names) if (text := shown(name, LONGEST_NAME).strip())}
    times = Counter(called.values())
    return {label: text if times[text] == 1 else f"{text} (class {label})" for label, text in called.items()}


class _Names:
    """The names of classes, once for all series that have the same."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], int] = {}
        self._called: list[dict[int, str]] = []
        self._used: list[set[int]] = []

    def of(self, names: Sequence[str], labels: Sequence[int]) -> int | None:
        """Where they stand; None where numbers are all there is."""
        key = tuple(names)
        if key not in self._places:
            called = class_names(names)
            if not called:
                return None
            self._places[key] = len(self._called)
            self._called.append(called)
            self._used.append(set())
        place = self._places[key]
        self._used[place].update(labels)
        return place

    def said(self) -> list[dict[int, str]]:
        return [
            {label: called[label] for label in sorted(used) if label in called}
            for called, used in zip(self._called, self._used, strict=True)
        ]


def _state(run: Run, errors: dict[str, str]) -> str:
    """One that was stopped by an error has failed."""
    return "failed" if run.state == "stopped" and run.name in errors else run.state


def _run(run: Run, home: tuple[int, int] | None, errors: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": shown(run.name), "state": _state(run, errors)}
    if home is not None:
        row |= {"home": home, "seed": _exact(run.spec["seed"])}
    if run.result is not None:
        return row | {"accuracy": _round(run.result.final_accuracy)}
    row["words"] = shown(run.words, 400)
    if run.state == "stopped" and run.name in errors:
        row["words"] = shown(errors[run.name], 400)
    if run.spec and run.state != "damaged":
        row["share"] = _round(run.told.share(run.tasks), 3)
    if run.state == "running" and (left := run.told.seconds_left(run.tasks)) is not None:
        row |= {"left": round(left), "words": f"{row['words']}, about {rough_time(left)} left"}
    if run.spec and run.told.probes:
        row["recall"] = _round(run.told.probes[-1].recall)
    return row


def _group(group: Group, limits: Limits, budget: _Budget, left_out: _Left) -> dict[str, Any]:
    if len(group.series) > limits.series:
        left_out.add(f"{len(group.series) - limits.series} of {len(group.series)} series on {group.name} are not drawn")
    drawn = group.series[: limits.series]
    places = {id(one): i for i, one in enumerate(drawn)}
    front = {cost: _front(drawn, cost) for cost in COSTS}
    names = _Names()
    series = [_series(one, group.tasks, limits, names, left_out) for one in drawn]
    shown_first = example(drawn)
    for i, (one, values) in enumerate(zip(drawn, series, strict=True)):
        values["against"] = places.get(id(one.against)) if one.against else None
        values["reference"] = any(other.against is one for other in drawn)
        values["example"] = one is shown_first
        values["front"] = [cost for cost in COSTS if i in front[cost]]
    # The first seed of every series before the second of any: there is most to see.
    runs = sorted(
        ((rank, i, run) for i, one in enumerate(drawn) for rank, run in enumerate(one.runs)),
        key=lambda entry: entry[:2],
    )
    timelines = [
        line
        for rank, i, run in runs
        if (line := _timeline(run, i, drawn[i].label, limits, budget, names, left_out)) is not None
    ]
    timelines.sort(key=lambda line: (not series[line["series"]]["example"], line["series"], str(line["seed"])))
    return {
        "name": group.name,
        "tasks": group.tasks,
        "summary": {"sentences": [compared(group), found(group)], "beware": beware(group)},
        "series": series,
        "timelines": timelines,
        "names": names.said(),
    }


def _series(one: Series, tasks: int, limits: Limits, names: _Names, left_out: _Left) -> dict[str, Any]:
    accuracy, difference, forgetting = one.accuracy(), one.difference(), one.forgetting()
    evaluated = one.evaluated(tasks)
    columns = [evaluated[i] for i in thinned(len(evaluated), limits.tasks)]
    if len(columns) < len(evaluated):
        left_out.add(f"of {tasks} tasks {len(columns)} are drawn")
    curve = [optional_estimate([run.accuracies[i] for run in one.runs if i < len(run.accuracies)]) for i in columns]
    return {
        "label": one.label,
        "method": shown(one.method),
        "colour": one.colour,
        "line": one.line,
        "variant": one.variant,
        "runs": len(one.runs),
        "collapsed": one.collapsed(),
        "accuracy": _estimate(accuracy),
        "seeds": [[_exact(seed), _round(result.final_accuracy)] for seed, result in one.results().items()][:100],
        "difference": _estimate(difference),
        "same_weights": one.same_weights(),
        "forgetting": _estimate(forgetting),
        "columns": [i + 1 for i in columns],
        "curve": [_estimate(point) for point in curve],
        "matrix": _matrix(one, columns),
        "retention": _retention(one, columns, limits, names, left_out),
        "cost": {cost: _round(value) if (value := one.cost(cost)) is not None else None for cost in COSTS},
        "upper_bound": one.upper_bound,
        "spec": {shown(k): shown(v) for k, v in one.spec.items() if k not in ("seed", "out", "data_dir")},
        "given": [shown(name) for name in one.given],
        "orders": {str(seed): shown(order) for seed, order in one.orders.items()},
        "command": one.command,
        "why_no_command": one.why_no_command,
    }


def _matrix(one: Series, columns: Sequence[int]) -> list[list[float | None]]:
    """The mean over seeds of the accuracy on each task, a row after each; later tasks are not yet to be known."""
    rows = []
    for i in columns:
        there = [row for run in one.runs if i < len(run.matrix) and (row := run.matrix[i]) is not None]
        rows.append([_mean([row[j] for row in there], 1) if there and j <= i else None for j in columns])
    return rows


def _retention(
    one: Series, columns: Sequence[int], limits: Limits, names: _Names, left_out: _Left
) -> dict[str, Any] | None:
    """The mean over seeds of each class's accuracy after each task, from the task that brought it on."""
    results = [result for result in one.results().values() if result.classes_per_task]
    if not results:
        return None
    tasks = results[0].classes_per_task
    results = [result for result in results if result.classes_per_task == tasks]
    arrived = [(label, task) for task, classes in enumerate(tasks) for label in classes]
    # A class's accuracy is kept by its label, whatever the order of arrival.
    known = results[0].class_accuracy[-1] or []  # the last task is always evaluated
    arrived = [(label, task) for label, task in arrived if 0 <= label < len(known)]
    chosen = [arrived[i] for i in thinned(len(arrived), limits.classes)]
    if len(chosen) < len(arrived):
        left_out.add(f"of {len(arrived)} classes {len(chosen)} are drawn")
    return {
        "classes": [label for label, _ in chosen],
        "names": names.of(next((r.class_names for r in results if r.class_names), []), [label for label, _ in chosen]),
        "tasks": [task + 1 for _, task in chosen],
        "all": len(chosen) == len(arrived),
        "seeds": len(results),
        "rows": [
            [
                _mean([row[label] for r in results if (row := r.class_accuracy[i])], 0) if i >= task else None
                for i in columns
            ]
            for label, task in chosen
        ],
    }


def _front(drawn: Sequence[Series], cost: str) -> set[int]:
    """Those that none beats: cheaper or as cheap, and better or as good. An upper bound is not in the race."""
    points = [
        (i, price, accuracy.mean)
        for i, one in enumerate(drawn)
        if not one.upper_bound and (accuracy := one.accuracy()) and (price := one.cost(cost)) is not None
    ]
    return {
        i
        for i, price, good in points
        if not any(p <= price and g >= good and (p, g) != (price, good) for _, p, g in points)
    }


def _timeline(
    run: Run, series: int, label: str, limits: Limits, budget: _Budget, names: _Names, left_out: _Left
) -> dict[str, Any] | None:
    """When each probe fired, what it found, and the gap it chose; with what it found of each task and class."""
    count = len(run.result.probes if run.result is not None else run.told.probes)
    if not count:
        return None
    name = f"{label}, seed {run.spec['seed']}"
    if count > budget.probes:  # known before the events are read, which would take longest
        left_out.add("the recall timeline is shown for the first seeds only")
        return None
    budget.probes -= count
    probes = run.probes()
    if not probes:
        return None
    epochs = _epochs(run)
    starts = [0, *accumulate(epochs)][:-1]
    threshold = run.spec.get("mastery_threshold")
    # In time, one at a time: a damaged file may say otherwise.
    at = {starts[p.task - 1] + p.epoch: p for p in probes}
    probes = [at[epoch] for epoch in sorted(at)]
    line = {
        "name": shown(name),
        "run": shown(run.name),
        "series": series,
        "seed": _exact(run.spec["seed"]),
        "state": run.state,
        "epochs": epochs,
        "threshold": threshold if isinstance(threshold, int | float) and 0 <= threshold <= 100 else None,
        "probes": [
            [starts[p.task - 1] + p.epoch, p.task, p.epoch, _round(p.recall), int(p.passed), p.next_epoch]
            for p in probes
        ],
    }
    tasks = [classes for classes in run.classes[: len(epochs)] if classes]
    if any(p.per_class for p in probes):
        line["per_task"] = _recalled(probes, [tasks[i] for i in thinned(len(tasks), limits.tasks)])
        line["per_task_names"] = [i + 1 for i in thinned(len(tasks), limits.tasks)]
        labels = [c for classes in tasks for c in classes]
        labels = [labels[i] for i in thinned(len(labels), limits.classes)]
        if len(labels) * len(probes) <= budget.cells:
            budget.cells -= len(labels) * len(probes)
            line["per_class"] = _recalled(probes, [[c] for c in labels])
            line["per_class_names"] = labels
            line["names"] = names.of(run.class_names, labels)
        else:
            left_out.add("what the probes found of each class is shown for the first seeds only")
    return line


def _epochs(run: Run) -> list[int]:
    """Epochs of each task; of those to come, as many as they may have."""
    if run.result is not None:
        return run.result.epochs_per_task
    told = run.told
    coming = max(told.epochs, told.epoch, 1)
    return [*told.epochs_per_task, *[coming] * run.tasks][: run.tasks]


def _recalled(probes: Sequence[Probe], parts: Sequence[Sequence[int]]) -> list[list[float | None]]:
    """The recall of each part, a task or a class, in each probe."""
    return [
        [_mean([p.per_class[label] for label in part if label in p.per_class], 0) for p in probes] for part in parts
    ]


def thinned(count: int, most: int) -> list[int]:
    """All of so many places, or evenly spaced ones of them with the first and the last."""
    if count <= most or count < 2:
        return list(range(count))
    most = max(2, most)
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _mean(values: Sequence[float], digits: int) -> float | None:
    return _round(sum(values) / len(values), digits) if values else None


def _estimate(value: Estimate | None) -> list[float | None] | None:
    """Its ends lie half its width from the mean when all are rounded, so that the page shows what a terminal does."""
    if value is None:
        return None
    mean, half = _round(value.mean), value.half_width
    if half is None:
        return [mean, None, None, value.n]
    return [mean, *(_round(mean + sign * round(half, 2)) for sign in (-1, 1)), value.n]


def _exact(value: int) -> int | str:
    """A browser's numbers end at 2 to the 53rd."""
    return value if abs(value) < 1 << 53 else str(value)


def _round(value: float, digits: int = 2) -> float:
    """Shorter in JSON, and whole where it is."""
    value = round(float(value), digits)
    return int(value) if value.is_integer() else value
