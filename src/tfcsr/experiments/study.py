"""A study: a set of runs and what there is of them. The paper is one, our own claims are another."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tfcsr.engines import Engine, Watcher, engine_of
from tfcsr.errors import SpecError, TfcsrError
from tfcsr.experiments.folder import RunFolders
from tfcsr.experiments.origin import Origins, changes, origin
from tfcsr.experiments.record import Record, Records, question
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Stop
from tfcsr.files import require_folder
from tfcsr.spec import RunSpec


class Study(ABC):
    """Which runs it needs, and which of them are known."""

    def __init__(self, seeds: Sequence[int], records: Records) -> None:
        self.seeds = list(seeds)
        self.records = records
        self._by_question = {question(record.run_spec): record for record in reversed(records.runs)}
        self._names: dict[Any, str] = {}

    def read(self, out: str | Path, also: Iterable[str | Path] = ()) -> Self:
        """Take up what there is, without running anything: the runs in `out/results.json`, complete ones in `out/runs`,
        and those in the files and folders of `also`. Of a folder's runs as much as this study wants; what a file holds
        stays, since another study, or this one with more seeds, may have wanted more.
        """
        out = Path(out)
        require_folder(out)
        for path in also:
            if not Path(path).exists():
                raise SpecError(f"also {path}: there is nothing; give a results.json, or a folder of runs")
        for source in (out / "results.json", out / "runs", *map(Path, also)):
            if source.exists():
                found = Records.read(source)
                found.runs = [record for record in found.runs if not _outdated(record)]
                if source.is_dir():
                    found.runs = [self.kept(record) for record in found.runs]
                self.records.merge(found)
        self._by_question = {question(record.run_spec): record for record in self.records.runs}
        return self

    @abstractmethod
    def named(self) -> Iterable[tuple[str, RunSpec]]:
        """Every run it needs, in the order in which they are wanted, with the name of what it is needed for first; some
        may come twice.
        """

    def kept(self, record: Record) -> Record:
        """What is kept of a run: nothing of its single classes, unless a study asks for that."""
        return record.without_classes()

    def lacks(self, record: Record) -> bool:
        """Whether something was not kept of a run that is wanted now: then it is made again."""
        return False

    def plan(self) -> list[RunSpec]:
        """Every run it needs, each once."""
        return list({question(spec): spec for _, spec in self.named()}.values())

    def missing(self, benchmark: str | None = None) -> list[RunSpec]:
        """What has yet to run; of one benchmark, or of all."""
        planned = self.plan()
        specs = [spec for spec in planned if benchmark in (None, spec.benchmark)]
        if not specs:
            there = sorted({spec.benchmark for spec in planned})
            raise SpecError(f"benchmark {benchmark}: none of these runs is on it, but on {', '.join(there)}")
        return [spec for spec in specs if (record := self.known(spec)) is None or self.lacks(record)]

    def known(self, spec: RunSpec) -> Record | None:
        return self._by_question.get(question(spec))

    def add(self, record: Record) -> None:
        known = self.known(record.run_spec)
        if known is not None and self.lacks(known):
            self.records.runs.remove(known)
        elif known is not None:
            return
        self.records.runs.append(record)
        self._by_question[question(record.run_spec)] = record

    def name(self, spec: RunSpec) -> str:
        """What a run is needed for in the first place."""
        asked = question(spec)
        if asked not in self._names:  # which it is not at first, nor where it waited for other runs
            self._names = {question(planned): name for name, planned in reversed(list(self.named()))}
        return f"{self._names[asked]} seed {spec.seed}"


def arms_of(names: Iterable[str], study: str, arms: Iterable[str]) -> list[str]:
    """The arms that targets like `study`, `study/section` or `study/section/arm` mean, each once, in their order."""
    there = list(arms)
    wanted: set[str] = set()
    for name in names:
        under = [arm for arm in there if f"{study}/{arm}/".startswith(f"{name}/")]
        if not under:
            sections = dict.fromkeys(section_of(arm) for arm in there)
            targets = [study, *(f"{study}/{section}" for section in sections)]
            raise SpecError(f"unknown target {name!r}: use one of {', '.join(targets)}, or a part of one")
        wanted.update(under)
    return [arm for arm in there if arm in wanted]


def section_of(arm: str) -> str:
    return arm.partition("/")[0]


def seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise SpecError(f"seeds {numbers} must be at least one, each once")
    return numbers


def _outdated(record: Record) -> bool:
    """Whether a run was made with other code than there is now; of ours, with a version that gave other weights.
    Whether the data is still the same is not asked: a study is read where there is none.
    """
    return bool(changes(record.origin, origin(record.run_spec, record.origin.get("data", ""))))


def run_missing(
    study: Study,
    out: str | Path,
    *,
    benchmark: str | None = None,
    workers: int = 0,
    device: str = "auto",
    data_dir: str | None = None,
    command: str = "",
    engine: str | Engine = "local",
    address: str | None = None,
    watcher: Watcher = lambda spec, update: None,
    stop: Stop | None = None,
) -> dict[str, str]:
    """Run what the study's targets need and is not yet known, of one benchmark or of all, and keep the records in
    `out/results.json`. Returns the errors of runs that failed.
    """
    missing, out = study.missing(benchmark), Path(out)
    if not missing:
        return {}
    from tfcsr.experiments.compare import execute

    # Of its 200 runs only the figures are wanted: the networks would take gigabytes.
    specs = [spec.replace(device=device, data_dir=data_dir, keep_model=False) for spec in missing]
    origins, places = Origins(), RunFolders(out / "runs")

    # Which command, when, on what, how many runs it finished and how long it had taken by then.
    session: dict[str, Any] = {"command": command, "date": datetime.now(UTC).date().isoformat(), "runs": 0}
    started = time.monotonic()

    def callback(spec: RunSpec, update: Any) -> None:
        if isinstance(update, Result):
            if session["runs"] == 0:
                study.records.sessions.append(session)
            study.add(study.kept(Record.of(update, per_class=True)))
            session["runs"] += 1
            session.update({"seconds": round(time.monotonic() - started, 1), "machine": update.environment})
            # At once, and not at the end: a session may end in any way.
            study.records.write(out / "results.json")
        watcher(spec, update)

    with engine_of(engine, workers, address) as place:
        specs = [place.fitted(spec, threads=1) for spec in specs]
        # Data that cannot be read is refused here, once.
        specs = [spec.replace(out=str(places.place(spec, origins[spec]))) for spec in specs]
        outcome = execute(specs, workers, callback, stop, origins, place)
    return {spec.name(): str(e) for spec, e in zip(specs, outcome, strict=True) if isinstance(e, TfcsrError)}
