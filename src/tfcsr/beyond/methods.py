"""The methods beside each other, beside what others published, and elsewhere."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfcsr.beyond.arms import ARMS, FIELD, IN_FIELD, NAMES, OURS, FieldValue
from tfcsr.beyond.outcomes import Outcome, method_of, outcome, paired
from tfcsr.beyond.study import Beyond
from tfcsr.beyond.verdicts import reached
from tfcsr.experiments.statistics import Estimate

# What we set out for, in percent: final accuracy at the paper's budget, and with 50 epochs by the size of the memory.
WANTED, AIM = 49.5, 52.0
WANTED_IN_FIELD: Mapping[int, float] = {500: 50.0, 2000: 58.0}
UPPER_BOUND = "joint"


def accuracy_rows(study: Beyond) -> list[Outcome]:
    return [outcome(study, f"accuracy/{method}", "accuracy/er") for method in NAMES]


@dataclass(frozen=True)
class InField:
    """Ours with one size of the memory and one way of replay."""

    memory: int
    way: str
    label: str
    accuracy: Estimate | None
    wanted: float
    verdict: str
    ahead: str
    """Whether it reaches the best that others published: as `verdict`."""


def field(study: Beyond) -> list[InField]:
    found = []
    for memory, wanted in WANTED_IN_FIELD.items():
        for way in IN_FIELD[memory]:
            row = study.row(f"field/{memory}/{way}")
            accuracy, best = row.accuracy, best_published(memory)
            ahead = "open" if best is None else reached(accuracy, best.accuracy[memory])
            found.append(InField(memory, way, row.label, accuracy, wanted, reached(accuracy, wanted), ahead))
    return found


def best_published(memory: int) -> FieldValue | None:
    known = [value for value in FIELD if memory in value.accuracy]
    return max(known, key=lambda value: value.accuracy[memory], default=None)


@dataclass(frozen=True)
class Ranking:
    """The methods in one setting, the best first; then those without runs. The upper bound stands aside."""

    setting: str
    places: list[Outcome]
    bound: Outcome
    lead: Estimate | None
    """Ours against the best of the others, paired."""
    rival: str | None

    @property
    def order(self) -> list[str]:
        return [method_of(place.name) for place in self.places if place.accuracy is not None]

    @property
    def complete(self) -> bool:
        return all(place.n for place in self.places)


def ranking(study: Beyond, setting: str) -> Ranking:
    """`setting`: what stands before the method in the names of its arms."""
    arms = [outcome(study, f"{setting}/{method}", f"{setting}/er") for method in NAMES if method != UPPER_BOUND]
    places = sorted(arms, key=lambda arm: -math.inf if arm.accuracy is None else arm.accuracy.mean, reverse=True)
    others = [place.name for place in places if place.accuracy is not None and method_of(place.name) != OURS]
    rival = others[0] if others else None
    lead = None if rival is None else paired(study, f"{setting}/{OURS}", rival)
    bound = outcome(study, f"{setting}/{UPPER_BOUND}", f"{setting}/er")
    return Ranking(setting, places, bound, lead, None if rival is None else method_of(rival))


def settings() -> list[str]:
    """Where the methods are ranked; an arm there may also be asked another question."""
    return list(dict.fromkeys(arm.rpartition("/")[0] for arm in ARMS if re.fullmatch(r"elsewhere/[^/]+/[^/]+", arm)))
