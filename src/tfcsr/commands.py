"""What each command does with what its command line asks for."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfcsr import processes
from tfcsr.errors import SpecError, printable
from tfcsr.options import Option
from tfcsr.spec import FIELDS, LearnerSpec, Parts, RunSpec, known_options, load_spec_file

MOST_SEEDS = 10_000
LISTS = ("methods", "benchmarks", "models", "policies", "schedules")


def learn(options: dict[str, Any]) -> None:
    from tfcsr.learner import commands

    names = ("folder", "data", "out", "size", "head", "skip_unreadable", "again", "restart")
    ours = {name: options.pop(name) for name in names}
    if ours["size"] is not None:
        ours["size"] = _number("size", ours["size"])
    commands.learn(_console(), fields=spec_fields(options, of=LearnerSpec.fields()), **ours)


def predict(options: dict[str, Any]) -> None:
    from tfcsr.learner import commands

    commands.predict(**options)


def recall(options: dict[str, Any]) -> None:
    from tfcsr.learner import commands

    commands.recall(_console(), **options)


def spec_fields(
    options: dict[str, Any], methods: Sequence[str] = (), of: Mapping[str, Option] = FIELDS
) -> dict[str, Any]:
    """The fields that a command line and its spec file give. A run's own file may be given as it is, for other methods
    and for a learner too: what they do not have is left out.
    """
    file = options.pop("spec")
    flags = {name: value for name, value in options.items() if value is not None}
    if file is None:
        return flags
    fields = {name: value for name, value in load_spec_file(file).items() if value is not None}
    runs = [fields | flags | {"method": name} for name in methods] or [fields | flags]
    apply = {name for given in runs for name in Parts(given, of).options}
    known = known_options()
    return {name: value for name, value in fields.items() if name in apply or name not in known} | flags


def run(options: dict[str, Any]) -> None:
    spec = RunSpec.from_dict(spec_fields(options))
    from tfcsr.experiments.machine import on_this_machine

    spec = on_this_machine(spec)
    if spec.out is None:
        spec = spec.replace(out=str(Path("results") / f"{_file_name(spec.benchmark)}-{spec.name()}"))
    _run_spec(spec)


def _file_name(benchmark: str) -> str:
    """`folder:PATH` without what would make folders of it."""
    return "-".join(part for part in re.split(r"[^\w.]+", benchmark) if part)[-60:]


def _run_spec(spec: RunSpec) -> None:
    from tfcsr.experiments import run as one
    from tfcsr.experiments.machine import keep_freed_memory
    from tfcsr.experiments.stop import stopped_by_signals
    from tfcsr.reporting.progress import RunDisplay
    from tfcsr.reporting.tables import run_summary, run_table

    console = _console()
    keep_freed_memory()
    with stopped_by_signals() as stop, RunDisplay(spec, console) as display:
        result = one.run(spec, [display], stop)
    if not display.begun:
        console.print(f"this run is already complete in {spec.out}", markup=False, soft_wrap=True)
    console.print(run_table(result))
    for line in run_summary(result):
        console.print(line, markup=False, highlight=False)
    console.print(f"kept in {spec.out}", markup=False, highlight=False, soft_wrap=True)


def resume(options: dict[str, Any]) -> None:
    from tfcsr.engines import engine_of
    from tfcsr.experiments.compare import execute
    from tfcsr.experiments.folder import RunFolder, incomplete_runs
    from tfcsr.experiments.result import Result
    from tfcsr.experiments.stop import stopped_by_signals
    from tfcsr.reporting.progress import ComparisonDisplay
    from tfcsr.reporting.words import counted

    folder, workers = Path(options["folder"]), _number("workers", options["workers"])
    changes = {"data_dir": options["data_dir"]} if options["data_dir"] is not None else {}
    engine = engine_of(options["engine"], workers, options["address"])
    alone = (folder / "spec.json").exists()
    if alone and options["engine"] == "local":
        _run_spec(RunFolder(folder).spec().replace(**changes))
        return
    if processes.here().several:
        raise SpecError(f"{folder} holds a comparison: torchrun is for one run, leave it out")
    begun = [RunFolder(folder).spec()] if alone else incomplete_runs(folder)
    specs = [spec.replace(**changes) for spec in begun]
    console = _console()
    if specs:
        with stopped_by_signals() as stop, ComparisonDisplay(len(specs), console) as display:
            outcome = execute(specs, watcher=display, stop=stop, engine=engine)
        failed = sum(not isinstance(entry, Result) for entry in outcome)
        done = counted(len(specs) - failed, "run")
        text = f"{done} in {folder} finished, {failed} failed; their `compare` command has the table"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        if failed:
            raise SystemExit(1)
    else:
        console.print(f"every run in {folder} is complete", markup=False, highlight=False, soft_wrap=True)


def compare(options: dict[str, Any]) -> None:
    methods, seeds, baseline = options.pop("methods"), options.pop("seeds"), options.pop("baseline")
    workers, orders, equal_steps = options.pop("workers"), options.pop("class_orders"), options.pop("equal_steps")
    engine, address = options.pop("engine"), options.pop("address")
    from tfcsr.experiments import compare as grid

    methods = methods if methods == "all" else methods.split(",")
    fields = spec_fields(options, grid.names_of(methods, {}, equal_steps=equal_steps))
    chosen = grid.names_of(methods, fields, equal_steps=equal_steps)
    for name in ("method", "seed"):  # a run's spec file may be given as it is
        fields.pop(name, None)
    out = fields.pop("out", None) or str(
        Path("results") / f"compare-{_file_name(fields.get('benchmark', 'split-digits'))}"
    )
    from tfcsr.experiments.stop import stopped_by_signals
    from tfcsr.reporting.progress import ComparisonDisplay
    from tfcsr.reporting.tables import comparison_notes, comparison_table

    which = _seeds(seeds)
    console = _console()
    with stopped_by_signals() as stop, ComparisonDisplay(len(chosen) * len(which), console) as display:
        comparison = grid.compare(
            methods=chosen,
            seeds=which,
            baseline=baseline,
            out=out,
            workers=_number("workers", workers),
            equal_steps=equal_steps,
            class_orders=_number("class_orders", orders),
            engine=engine,
            address=address,
            watcher=display,
            stop=stop,
            **fields,
        )
    console.print(comparison_table(comparison))
    for line in comparison_notes(comparison):
        console.print(line, markup=False, highlight=False)
    kept = f"kept in {out}: a folder per run, and {comparison.file}"
    console.print(kept, markup=False, highlight=False)
    if comparison.errors:
        raise SystemExit(1)


def reproduce(options: dict[str, Any]) -> None:
    from tfcsr.experiments.stop import stopped_by_signals
    from tfcsr.experiments.study import run_missing
    from tfcsr.reporting.progress import ComparisonDisplay
    from tfcsr.reporting.studies import STUDIES, plan_lines, study_of

    data, kind = options["data"], study_of(options["targets"])
    place = STUDIES[kind].folder + ("" if data is None else f"-{_file_name(data)}")
    out = Path(options["out"] or Path("results") / place)
    device, workers = FIELDS["device"].checked(options["device"]), _number("workers", options["workers"])
    benchmark = None if options["benchmark"] is None else FIELDS["benchmark"].checked(options["benchmark"])
    seeds = _seeds(options["seeds"])
    study = STUDIES[kind].open(options["targets"], seeds=seeds, out=out, data=data, also=options["also"])
    missing = study.missing(benchmark)
    console = _console()

    def say(lines: Iterable[str]) -> None:
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    if options["dry_run"]:
        say(plan_lines(study, benchmark, device, workers, options["data_dir"]))
        return
    errors: dict[str, str] = {}
    # Some runs are known only when others are done: a control replays as much as what it is a control of.
    while missing and not errors and not options["no_run"]:
        with stopped_by_signals() as stop, ComparisonDisplay(len(missing), console, study.name) as display:
            errors = run_missing(
                study,
                out,
                benchmark=benchmark,
                workers=workers,
                device=device,
                data_dir=options["data_dir"],
                command=shlex.join(["tfcsr", "reproduce", *options["targets"], *_given(options)]),
                engine=options["engine"],
                address=options["address"],
                watcher=display,
                stop=stop,
            )
        missing = study.missing(benchmark)
    pages = STUDIES[kind].write_pages(study, out)
    for table in STUDIES[kind].tables(study):
        console.print(table)
    say(STUDIES[kind].outcome_lines(study, pages))
    say(printable(f"{name} failed: {error}") for name, error in errors.items())
    if errors:
        raise SystemExit(1)


def _given(options: dict[str, Any]) -> list[str]:
    """The flags that decide what was run, without where on this machine its files lie."""
    names = ("seeds", "data", "benchmark", "device", "workers", "engine")
    defaults = {"seeds": "5", "device": "auto", "workers": "0", "engine": "local"}
    given = [(name, options[name]) for name in names if options[name] not in (None, defaults.get(name))]
    return [word for name, value in given for word in (f"--{name}", value)]


def report(options: dict[str, Any]) -> None:
    from tfcsr.reporting.report import write_report

    path = write_report(options["folder"], options["out"])
    size = path.stat().st_size
    text = f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size // 1000} kB"
    print(f"{printable(str(path))} ({text})")


def watch(options: dict[str, Any]) -> None:
    from tfcsr.reporting.watch import serve

    serve(options["folder"], options["host"], _number("port", options["port"]), lambda text: print(text, flush=True))


def plot(options: dict[str, Any]) -> None:
    from tfcsr.reporting import figures

    chosen = {name: options[name] for name in ("benchmark", "format", "out")}
    for name in ("methods", "seeds"):
        if options[name] is not None:  # with commas, as elsewhere, or apart
            words = [word for part in options[name] for word in part.split(",") if word]
            chosen[name] = words if name == "methods" else [_number("seed", word) for word in words]
    print(printable(str(figures.plot(options["folder"], options["figure"], **chosen))))


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SpecError(f"{name} {text!r} is not a whole number") from None


def _seeds(text: str) -> list[int]:
    """How many, or which: `3` is 0,1,2 and `3,4` is just these."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise SpecError(f"seeds {text!r} is not a whole number, nor a list of them like 3,4,5") from None
    if "," in text:
        return numbers
    if not 1 <= numbers[0] <= MOST_SEEDS:
        raise SpecError(f"seeds {text} is impossible: give how many, from 1 to {MOST_SEEDS}, or which: 3,4,5")
    return list(range(numbers[0]))


def data_list(options: dict[str, Any]) -> None:
    from tfcsr.data import sources

    width = max(map(len, sources.NAMES)) + 2
    for name in sources.NAMES:
        where, text = sources.describe(name, options["data_dir"])
        print(f"{name:{width}}{text}" + (f": {where}" if where else f": not here; run tfcsr data fetch {name}"))


def data_fetch(options: dict[str, Any]) -> None:
    from tfcsr.data import sources

    paths = sources.fetch(options["name"], options["data_dir"])
    for path in paths:
        print(path)
    if not paths:
        print(f"{options['name']}: nothing to fetch")


def data_check(options: dict[str, Any]) -> None:
    from tfcsr.data import sources

    for file, state in sources.check(options["name"], options["data_dir"]):
        print(f"{file}: {state}")


def list_names(options: dict[str, Any]) -> None:
    from tfcsr.buffer.policies import POLICIES
    from tfcsr.data.benchmarks import BENCHMARKS
    from tfcsr.methods import METHODS
    from tfcsr.models import MODELS
    from tfcsr.recall.schedule import SCHEDULES

    what = options["what"]
    if what == "runs":
        _list_runs(Path(options["folder"] or "results"))
        return
    registries = dict(zip(LISTS, (METHODS, BENCHMARKS, MODELS, POLICIES, SCHEDULES), strict=True))
    if what not in registries:
        raise SpecError(f"cannot list {what!r}: use one of {', '.join((*LISTS, 'runs'))}")
    registry: Any = registries[what]
    width = max(map(len, registry.forms())) + 2
    for name in registry.forms():
        print(f"{name:{width}}{registry.describe(name)}")


def _list_runs(folder: Path) -> None:
    from tfcsr.experiments.folder import list_runs

    runs = [(printable(name), printable(progress)) for name, progress in list_runs(folder)]
    width = max((len(name) for name, _ in runs), default=0) + 2
    for name, progress in runs:
        print(f"{name:{width}}{progress}")
    if not runs:
        print(f"no runs in {printable(str(folder))}")


def _console() -> Any:
    from rich.console import Console

    return Console(quiet=not processes.here().leads)
