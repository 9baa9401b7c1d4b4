"""A grid of methods and seeds, run on all cores, and its summary."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tfcsr
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.engines import Engine, Watcher, engine_of
from tfcsr.engines.pool import Update
from tfcsr.errors import BusyError, SpecError, TfcsrError
from tfcsr.experiments.folder import RunFolder, RunFolders
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.plan import announced
from tfcsr.experiments.result import Result
from tfcsr.experiments.statistics import Estimate, estimate, optional_estimate, paired_difference
from tfcsr.experiments.stop import Stop
from tfcsr.experiments.study import seed_numbers
from tfcsr.files import read_json, require_folder, write_json
from tfcsr.methods import METHODS, preferred_baseline
from tfcsr.spec import FIELDS, Parts, RunSpec, known_options, unknown_field

SECONDS_BETWEEN_TRIES = 1.0


@dataclass(frozen=True)
class MethodSummary:
    """One method over its seeds. The means include collapsed runs, which are also counted."""

    method: str
    n: int
    collapsed: int
    failed: int
    final_accuracy: Estimate
    difference: Estimate | None
    forgetting: Estimate | None
    replay_batches: float
    memory_checks: float
    seconds: float
    optimizer_steps: float
    samples_seen: float


@dataclass(frozen=True)
class Comparison:
    benchmark: str
    baseline: str
    methods: list[MethodSummary]
    results: list[Result] = field(repr=False)
    errors: dict[str, str]
    file: str | None = None
    """Its file name in the folder of its runs."""

    @property
    def class_orders(self) -> int:
        """The number of class orders among its runs."""
        return len({str(result.spec["class_order"]) for result in self.results})

    def to_dict(self) -> dict[str, Any]:
        runs = [
            {"method": r.spec["method"], "seed": r.spec["seed"], "final_accuracy": r.final_accuracy}
            | {"collapsed": r.collapsed, "run": Path(r.spec["out"] or RunSpec.read(r.spec).name()).name}
            for r in self.results
        ]
        return {
            "tfcsr": tfcsr.__version__,
            "benchmark": self.benchmark,
            "baseline": self.baseline,
            "methods": [asdict(summary) for summary in self.methods],
            "runs": runs,
            "errors": self.errors,
        }


def compare(
    *,
    benchmark: str = "split-digits",
    methods: str | Sequence[str] = "all",
    seeds: int | Sequence[int] = 5,
    baseline: str | None = None,
    out: str | Path | None = None,
    workers: int = 0,
    equal_steps: bool = False,
    class_orders: int = 1,
    engine: str | Engine = "local",
    address: str | None = None,
    watcher: Watcher = lambda spec, update: None,
    stop: Stop | None = None,
    **spec_fields: Any,
) -> Comparison:
    """As `tfcsr.compare`, which documents the arguments, but without its progress bar."""
    place = engine_of(engine, workers, address)
    base = {"benchmark": benchmark} | spec_fields
    names, numbers = names_of(methods, base, equal_steps=equal_steps), seed_numbers(seeds)
    if not names or len(set(names)) < len(names):
        raise SpecError(f"methods {names} must be at least one, each once")
    baseline = baseline or preferred_baseline(names) or names[0]
    if baseline not in names:
        raise SpecError(f"baseline {baseline!r} is not among the compared methods {', '.join(names)}")
    of_methods = specs_of(names, base)
    if equal_steps:
        if taken := [name for name in EQUAL_STEPS if name in spec_fields]:
            raise SpecError(f"equal_steps sets {taken[0]}: leave that out")
        of_methods = [_with_equal_steps(spec) for spec in of_methods]
    orders = _class_orders(of_methods[0], class_orders)
    folder = Path(out) if out is not None else None
    if folder is not None:
        require_folder(folder)
    with place:
        specs = [
            place.fitted(spec.replace(seed=seed, class_order=orders[number % len(orders)]), threads=1)
            for number, seed in enumerate(numbers)
            for spec in of_methods
        ]
        # Data that cannot be read is refused here, once, and not by every run.
        origins = Origins()
        now = [origins[spec] for spec in specs]
        if folder is not None:
            places = RunFolders(folder)
            specs = [spec.replace(out=str(places.place(spec, o))) for spec, o in zip(specs, now, strict=True)]
        outcomes = execute(specs, watcher=watcher, stop=stop, origins=origins, engine=place)
    # A run that was found lies where it was found, whatever its folder was called when it ran.
    results = [
        replace(e, spec=e.spec | {"out": s.out}) for s, e in zip(specs, outcomes, strict=True) if isinstance(e, Result)
    ]
    names_there = [spec.name() if spec.out is None else Path(spec.out).name for spec in specs]
    errors = {name: str(e) for name, e in zip(names_there, outcomes, strict=True) if isinstance(e, TfcsrError)}
    if not results:
        raise next(entry for entry in outcomes if isinstance(entry, TfcsrError))
    comparison = summarise(benchmark, baseline, results, errors)
    if folder is not None:
        asked = sorted(spec.name() for spec in specs)
        path = _place(folder, asked)
        comparison = replace(comparison, file=path.name)
        write_json(path, comparison.to_dict() | {"asked": asked})
    return comparison


def names_of(methods: str | Sequence[str], fields: Mapping[str, Any], *, equal_steps: bool = False) -> list[str]:
    """The names of the methods. `all` leaves out those without a meaning in the scenario and, where steps are counted
    or made equal, those that decide about them as they go.
    """
    if methods != "all":
        return [methods] if isinstance(methods, str) else list(methods)
    benchmark = BENCHMARKS.get(FIELDS["benchmark"].checked(fields.get("benchmark", FIELDS["benchmark"].default)))
    scenario = FIELDS["scenario"].checked(fields.get("scenario") or benchmark.defaults.get("scenario", "class"))
    gated = [name for name in METHODS.names() if any(o.name == "max_epochs" for o in METHODS.options(name))]
    without = gated if equal_steps or fields.get("steps") else []
    return [name for name in METHODS.names() if name not in without and scenario in METHODS.get(name).scenarios]


# What lets a method take as many steps as plain training does.
EQUAL_STEPS = {"new_data": "half", "joint_epoch": "newest"}


def _with_equal_steps(spec: RunSpec) -> RunSpec:
    if spec.get("max_epochs") is not None:
        raise SpecError(f"equal_steps: {spec.method} goes on when a task is mastered, however many steps that takes")
    changes = {name: value for name, value in EQUAL_STEPS.items() if name in spec.options()}
    return spec.replace(**changes) if changes else spec


def _class_orders(spec: RunSpec, count: int) -> list[Any]:
    """`count` class orders: the spec's own, and the seeds that follow it."""
    if count < 1:
        raise SpecError(f"class_orders {count} is below 1: give how many orders of the classes the seeds share")
    if count > 1 and not isinstance(spec.class_order, int):
        raise SpecError("class_orders varies the seed of the order: with a list of classes, use 1")
    first: Any = spec.class_order
    return [first] if count == 1 else [first + number for number in range(count)]


def _place(folder: Path, asked: list[str]) -> Path:
    """The file for a comparison of these runs. It never replaces a comparison of other runs."""
    for number in itertools.count(1):
        path = folder / ("comparison.json" if number == 1 else f"comparison-{number}.json")
        try:
            there = read_json(path)
        except TfcsrError:  # not there, or damaged
            return path
        # Before 0.4.0 a comparison did not say which runs it was of.
        if not isinstance(there, dict) or there.get("asked", asked) == asked:
            return path
    raise AssertionError


def specs_of(methods: Sequence[str], fields: Mapping[str, Any]) -> list[RunSpec]:
    """A spec per method. A field goes to the methods that have it; a field that no method has is an error."""
    given = [{**fields, "method": method} for method in methods]
    have = [Parts({k: v for k, v in values.items() if v is not None}).options for values in given]
    for name in fields:
        if not any(name in options for options in have):
            raise SpecError(Parts(given[0]).why_not(name) if name in known_options() else unknown_field(name, have))
    return [RunSpec.from_dict({k: v for k, v in g.items() if k in o}) for g, o in zip(given, have, strict=True)]


def summarise(benchmark: str, baseline: str, results: list[Result], errors: dict[str, str]) -> Comparison:
    """Summarise the results by method, best first."""
    by_method: dict[str, dict[int, Result]] = {}
    for result in results:
        by_method.setdefault(result.spec["method"], {})[result.spec["seed"]] = result
    reference = {seed: result.final_accuracy for seed, result in by_method.get(baseline, {}).items()}
    summaries = [
        MethodSummary(
            method=method,
            n=len(runs),
            collapsed=sum(r.collapsed is not None for r in runs.values()),
            failed=sum(name.startswith(f"{method}-seed") for name in errors),
            final_accuracy=estimate([r.final_accuracy for r in runs.values()]),
            difference=None
            if method == baseline
            else paired_difference({seed: r.final_accuracy for seed, r in runs.items()}, reference),
            forgetting=optional_estimate([r.forgetting for r in runs.values()]),
            replay_batches=estimate([r.replay_batches for r in runs.values()]).mean,
            memory_checks=estimate([r.memory_checks for r in runs.values()]).mean,
            seconds=estimate([r.seconds for r in runs.values()]).mean,
            optimizer_steps=estimate([r.optimizer_steps for r in runs.values()]).mean,
            samples_seen=estimate([r.samples_seen for r in runs.values()]).mean,
        )
        for method, runs in by_method.items()
    ]
    summaries.sort(key=lambda summary: -summary.final_accuracy.mean)
    return Comparison(benchmark, baseline, summaries, results, errors)


def execute(
    specs: list[RunSpec],
    workers: int = 0,
    watcher: Watcher = lambda spec, update: None,
    stop: Stop | None = None,
    origins: Origins | None = None,
    engine: str | Engine = "local",
    address: str | None = None,
) -> list[Result | TfcsrError]:
    """The outcome of each spec, in order. Complete runs are read; the others are announced in their folder, then run,
    several at once.
    """
    engine = engine_of(engine, workers, address)
    stop, origins = stop or Stop(), origins or Origins()
    outcome: dict[RunSpec, Result | TfcsrError] = {}

    def callback(spec: RunSpec, update: Update) -> None:
        if isinstance(update, BusyError):
            return
        if not isinstance(update, dict):
            outcome[spec] = update
        watcher(spec, update)

    for spec in specs:
        if spec.out is not None and (complete := RunFolder(spec.out).completed(spec, origins[spec])) is not None:
            callback(spec, complete)
    todo = [spec for spec in specs if spec not in outcome]
    with engine, announced(specs if todo else [], engine.prepare(todo) if todo else 0):
        while todo:
            engine.run(todo, callback, stop, origins)
            # What another process has in hand is complete when that is done with it, or can be resumed if it died.
            before, todo = todo, [spec for spec in todo if spec not in outcome]
            if len(todo) == len(before):
                time.sleep(SECONDS_BETWEEN_TRIES)
    return [outcome[spec] for spec in specs]
