"""Runs put together as figures show them: a series per spec, over its seeds, beside those it can be compared with."""

import functools
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import TfcsrError, printable
from tfcsr.experiments.reading import Run
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import Estimate, optional_estimate, paired_difference
from tfcsr.methods import METHODS, preferred_baseline
from tfcsr.options import format_value
from tfcsr.reporting.styles import styles
from tfcsr.spec import FIELDS, NOT_IDENTITY, RunSpec

# What a run comes from beside its spec, and how it is named where runs of one spec differ in it.
ORIGINS = {"code": "code", "data": "data", "training": "version", "method": "method version"}
# The first is what a reader sees: every method has it, and it is the same on every machine.
COSTS = ("optimizer_steps", "samples_seen", "replay_batches", "memory_checks", "seconds", "buffer_bytes")
LONGEST = 120
READABLE = 60  # of a label


def shown(value: Any, longest: int = LONGEST) -> str:
    """Text from a file, on one line and no longer than can be read."""
    text = printable(format_value(value))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


@dataclass
class Series:
    """One spec but for its seed; or for its seed and the order of the classes, where that varies with the seed."""

    spec: dict[str, Any]
    given: dict[str, Any]  # what differs from the defaults
    command: str | None  # without the seed
    why_no_command: str
    origin: dict[str, Any] = field(default_factory=dict)
    by_seed: dict[int, Run] = field(default_factory=dict)
    orders: dict[int, Any] = field(default_factory=dict)  # of the classes, by seed, where they vary with it
    repeated: int = 0  # folders that hold a run once more
    label: str = ""
    colour: str = ""
    line: str = ""
    variant: int = 0
    against: "Series | None" = None

    @functools.cached_property
    def runs(self) -> list[Run]:
        return [self.by_seed[seed] for seed in sorted(self.by_seed)]

    @property
    def method(self) -> str:
        return str(self.spec["method"])

    @property
    def upper_bound(self) -> bool:
        """Whether it keeps every example ever seen: its cost is not on the scales of the others."""
        return self.method in METHODS.names() and METHODS.get(self.method).sees_all_tasks

    @functools.cached_property
    def _results(self) -> dict[int, Result]:
        return {run.spec["seed"]: run.result for run in self.runs if run.result is not None}

    def results(self) -> dict[int, Result]:
        """Of the complete runs, by seed."""
        return self._results

    def accuracy(self) -> Estimate | None:
        return optional_estimate([r.final_accuracy for r in self.results().values()])

    def forgetting(self) -> Estimate | None:
        return optional_estimate([r.forgetting for r in self.results().values()])

    def evaluated(self, tasks: int) -> list[int]:
        """The places, from 0, of the tasks after which its runs are evaluated."""
        said = self.spec.get("evaluate_every")
        every = said if type(said) is int and said > 0 else 1
        return [i for i in range(tasks) if (i + 1) % every == 0 or i + 1 == tasks]

    def cost(self, name: str) -> float | None:
        values = optional_estimate([getattr(r, name) for r in self.results().values()])
        return values.mean if values else None

    def difference(self) -> Estimate | None:
        """To the series it stands against, seed by seed."""
        if self.against is None:
            return None
        ours, theirs = self.results(), self.against.results()
        return paired_difference(
            {seed: r.final_accuracy for seed, r in ours.items()}, {seed: r.final_accuracy for seed, r in theirs.items()}
        )

    def same_weights(self) -> int:
        """With how many seeds it ended in the very weights of the series it stands against; 0 unless with all."""
        if self.against is None:
            return 0
        ours, theirs = self.results(), self.against.results()
        shared = ours.keys() & theirs.keys()
        same = all(ours[seed].weights_sha256 == theirs[seed].weights_sha256 for seed in shared)
        return len(shared) if same else 0

    def collapsed(self) -> int:
        return sum(result.collapsed is not None for result in self.results().values())


@dataclass
class Group:
    """All series over the same tasks."""

    benchmark: str
    tasks: int
    series: list[Series]
    name: str = ""


def grouped(runs: Sequence[Run], baseline: str | None = None) -> list[Group]:
    """Every run whose spec can be read, best series first; `baseline` is the method the others are compared with."""
    series: dict[str, Series] = {}
    groups: dict[tuple[str, int], Group] = {}
    read: dict[str, Series] = {}
    keys: dict[tuple[str, str], str] = {}
    for run in runs:
        if not run.spec or not run.tasks:
            continue
        identity = {k: v for k, v in run.spec.items() if k not in (*NOT_IDENTITY, "seed")}
        as_written = json.dumps(identity, sort_keys=True)
        if as_written not in read:
            read[as_written] = _series(run.spec)
        # By what it is, and not by how it was written: an older version wrote more.
        origin = run.origin if isinstance(run.origin, dict) else {}
        comes_from = json.dumps([run.tasks, [origin.get(name) for name in ORIGINS]], sort_keys=True)
        if (as_written, comes_from) not in keys:
            own = {k: v for k, v in read[as_written].spec.items() if k not in (*NOT_IDENTITY, "seed")}
            keys[as_written, comes_from] = json.dumps(own, sort_keys=True) + comes_from
        key = keys[as_written, comes_from]
        if key not in series:
            series[key] = replace(read[as_written], by_seed={}, origin=origin)
            group = groups.setdefault(
                (run.spec["benchmark"], run.tasks), Group(run.spec["benchmark"], run.tasks, [], run.spec["benchmark"])
            )
            group.series.append(series[key])
        _take(series[key], run)
    names = [group.benchmark for group in groups.values()]
    for group in groups.values():
        _join_orders(group)
        if names.count(group.benchmark) > 1:
            group.name = f"{group.benchmark}, {group.tasks} tasks"
        group.name = shown(group.name)
        _arrange(group, baseline)
    return sorted(groups.values(), key=lambda group: (group.benchmark, group.tasks))


def _series(spec: dict[str, Any]) -> Series:
    identity = {k: v for k, v in spec.items() if k not in NOT_IDENTITY} | {"seed": 0}
    try:
        known = RunSpec.read(identity)
    except TfcsrError as error:  # of a user's own method or benchmark, of a later version, or of data that is gone
        return Series(spec, _given(identity), None, shown(str(error), 300))
    return Series(known.to_dict(), known.given(), shlex.join(["tfcsr", "run", *known.flags()]), "")


def _given(identity: dict[str, Any]) -> dict[str, Any]:
    """What differs from the defaults, as far as they are known, in a spec that names something unknown."""
    benchmark = identity.get("benchmark")
    of_benchmark = BENCHMARKS.get(benchmark).defaults if benchmark in BENCHMARKS.names() else {}
    defaults = {name: option.default for name, option in FIELDS.items()} | dict(of_benchmark)
    return {k: v for k, v in identity.items() if k in ("benchmark", "method") or (k != "seed" and v != defaults.get(k))}


def _take(series: Series, run: Run) -> None:
    """One run per seed: a complete one before one that is not, else the first."""
    there = series.by_seed.setdefault(run.spec["seed"], run)
    if there is not run:
        series.repeated += 1
        if there.result is None and run.result is not None:
            series.by_seed[run.spec["seed"]] = run


def _join_orders(group: Group) -> None:
    """Make one series of those that differ in the order of the classes alone, if every seed here has one order: so a
    comparison over several orders leaves them. Else runs of one seed would stand apart, and no two of them would pair.
    """
    given: dict[int, set[str]] = {}
    for one in group.series:
        for seed in one.by_seed:
            given.setdefault(seed, set()).add(json.dumps(one.spec.get("class_order")))
    orders = set().union(*given.values())
    if len(orders) < 2 or any(len(of_seed) > 1 for of_seed in given.values()):
        return
    joined: dict[str, Series] = {}
    for one in group.series:
        spec = {k: v for k, v in one.spec.items() if k != "class_order"}
        own = {k: v for k, v in spec.items() if k not in (*NOT_IDENTITY, "seed")}
        key = json.dumps([own, [one.origin.get(name) for name in ORIGINS]], sort_keys=True)
        if key not in joined:
            joined[key] = replace(_series(spec), spec=spec, by_seed={}, origin=one.origin)
        whole = joined[key]
        whole.by_seed |= one.by_seed
        whole.orders |= dict.fromkeys(one.by_seed, one.spec.get("class_order"))
        whole.repeated += one.repeated
    for whole in joined.values():
        numbers = sorted({shown(order) for order in whole.orders.values()})
        whole.spec["class_order"] = f"{'; '.join(numbers)} (with the seed)"
    group.series = list(joined.values())


def _arrange(group: Group, baseline: str | None) -> None:
    group.series.sort(key=lambda one: (_rank(one), one.method, json.dumps(one.given, sort_keys=True)))
    _label(group.series)
    methods = [one.method for one in group.series]
    if baseline not in methods:
        baseline = preferred_baseline(methods)
    candidates = [one for one in group.series if one.method == baseline]
    for one in group.series:
        if candidates and one.method != baseline:
            one.against = max(candidates, key=lambda other: _alike(one, other))


def example(series: Sequence[Series]) -> Series:
    """The one to show where only one can be: that which probed most; of equals the first, which is the best."""
    return max(series, key=lambda one: one.cost("memory_checks") or 0.0)


def _rank(series: Series) -> float:
    accuracy = series.accuracy()
    return -accuracy.mean if accuracy else 1.0


def _alike(one: Series, other: Series) -> int:
    """The more, the fewer of the fields that either was given differ."""
    names = (one.given.keys() | other.given.keys()) - {"method"}
    names = {name for name in names if name in one.spec and name in other.spec}
    return -sum(1 for name in names if one.spec.get(name) != other.spec.get(name))


def _named(one: Series, names: Sequence[str]) -> str:
    return shown(", ".join([one.method, *(f"{name} {shown(one.spec[name], 40)}" for name in names)]))


def _equal(one: Series, other: Series, name: str) -> bool:
    return bool(one.spec.get(name) == other.spec.get(name))


def _told_apart(one: Series, like: Sequence[Series], name: str) -> str:
    """A few letters of what it comes from, where series of one spec differ in that."""
    own, others = one.origin.get(name), [other.origin.get(name) for other in like]
    if all(other == own for other in others):
        return ""
    letters = "unknown" if own is None else str(own)[:6]
    if isinstance(own, dict):
        known = [other if isinstance(other, dict) else {} for other in others]
        parts = [str(value)[:6] for part, value in own.items() if any(other.get(part) != value for other in known)]
        letters = " ".join(parts[:3])
    return f", {ORIGINS[name]} {shown(letters)}"


def _label(series: list[Series]) -> None:
    """The method, and what distinguishes a series from the others: a field it was given and not all were, or in which
    the series of its method differ.
    """
    for one in series:
        same = [other for other in series if other.method == one.method]
        names = [
            name
            for name in one.spec
            if name not in ("benchmark", "method", "seed", *NOT_IDENTITY)
            and (
                any(other.spec.get(name) != one.spec[name] for other in same)
                if len(same) > 1
                else name in one.given and any(other.given.get(name) != one.given[name] for other in series)
            )
        ]
        if "protocol" in names:  # it stands for the fields it sets: only what differs beside it is named
            like = [other for other in same if other.spec.get("protocol") == one.spec["protocol"]]
            more = [name for name in names if any(other.spec.get(name) != one.spec[name] for other in like)]
            names = ["protocol", *(more if len(same) > 1 else one.given.keys() & set(names) - {"protocol"})]
        one.variant = same.index(one)
        one.label = _named(one, names)
        like = [other for other in same if other is not one and other.spec == one.spec]
        one.label += "".join(_told_apart(one, like, name) for name in ORIGINS)
        if len(one.label) > READABLE:  # then what most have in common goes without saying
            one.label = _named(
                one, [name for name in names if 2 * sum(_equal(o, one, name) for o in same) <= len(same)]
            )
    looks = styles([(one.method, one.variant) for one in series])
    for one, (colour, line) in zip(series, looks, strict=True):
        one.colour, one.line = colour, line
    counts: dict[str, int] = {}
    for one in series:  # what was cut short may have become alike
        counts[one.label] = counts.get(one.label, 0) + 1
        if counts[one.label] > 1:
            one.label += f" ({counts[one.label]})"
