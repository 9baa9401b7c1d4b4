"""The studies there are: the paper, our own claims, and the scenarios. What a command needs of each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfcsr.beyond import study as beyond_study
from tfcsr.errors import SpecError
from tfcsr.experiments.expected import expected_seconds
from tfcsr.experiments.study import Study
from tfcsr.paper import reproduction as paper_study
from tfcsr.paper.published import NAMES as PAPER_NAMES
from tfcsr.reporting import scenarios
from tfcsr.reporting.beyond import page as beyond_page
from tfcsr.reporting.reproduction import page as paper_page
from tfcsr.reporting.reproduction import terminal as paper_terminal
from tfcsr.reporting.words import counted, rough_time
from tfcsr.scenarios import study as scenarios_study


@dataclass(frozen=True)
class Kind:
    names: tuple[str, ...]
    folder: str
    open: Callable[..., Any]
    write_pages: Callable[[Any, Path], list[Path]]
    outcome_lines: Callable[[Any, Sequence[Path]], Iterable[str]]
    tables: Callable[[Any], Iterable[Any]] = lambda study: ()
    """What was asked for, to be printed at the end."""


STUDIES = {
    "paper": Kind(
        tuple(PAPER_NAMES),
        "reproduce",
        paper_study.open_study,
        paper_page.write_pages,
        paper_terminal.outcome_lines,
        paper_terminal.tables,
    ),
    "beyond": Kind(
        beyond_study.NAMES, "beyond", beyond_study.open_study, beyond_page.write_pages, beyond_page.outcome_lines
    ),
    "scenarios": Kind(
        scenarios_study.TARGETS,
        "scenarios",
        scenarios_study.open_study,
        scenarios.write_pages,
        scenarios.outcome_lines,
        scenarios.tables,
    ),
}


def study_of(targets: Sequence[str]) -> str:
    """The study that all these targets are of."""
    owners = {name: kind for kind, study in STUDIES.items() for name in study.names}
    for name in targets:
        if name.partition("/")[0] not in owners:
            raise SpecError(f"unknown target {name!r}: use one of {', '.join(owners)}")
    found = list(dict.fromkeys(owners[name.partition("/")[0]] for name in targets))
    if len(found) > 1:
        raise SpecError(f"{', '.join(targets)} are of two studies, {' and '.join(found)}: ask for one at a time")
    return found[0]


def plan_lines(
    study: Study, benchmark: str | None, device: str, workers: int, data_dir: str | None = None
) -> Iterable[str]:
    """What would run, and for how long."""
    missing, planned = study.missing(benchmark), study.plan()
    for spec in missing:
        yield study.name(spec)
    known = len(planned) - len(study.missing())
    yield f"{counted(len(missing), 'run')} to do, {known} of {len(planned)} known" if missing else f"all {known} known"
    if missing:
        seconds, source = expected_seconds(study, missing, device, workers, data_dir)
        yield f"about {rough_time(seconds)}, judged by {source}"
