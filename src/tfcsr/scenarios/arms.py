"""The runs that tie our methods to outside code, as data: what is trained, and what the other code came to.

The settings are those of GMvandeVen/continual-learning, put in our terms: its penalties are (lambda/2) F d² and c omega
d², ours lambda F d² and (lambda/2) omega d²; its batch of 128 new and 128 replayed images is one of 256 here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfcsr.data.benchmarks.base import SCENARIOS
from tfcsr.spec import RunSpec

SOURCE = "GMvandeVen/continual-learning, commit e6d795a"
DIGITS = tuple(range(10))
BASE = "finetune"

SPLIT: Mapping[str, Any] = {
    "benchmark": "split-mnist",
    "model": "mlp",
    "hidden": "400,400",
    "pixels": "unit",
    "batch_size": 128,
    "steps": 2000,
}
# 60,000 images a task: the same number of steps would be four passes, half of it is enough to learn one.
PERMUTED: Mapping[str, Any] = dict(SPLIT) | {"benchmark": "permuted-mnist", "steps": 1000}
EWC_LAMBDA = {"task": 1e5, "domain": 1e10, "class": 1e9}
SI_C = {"task": 10.0, "domain": 5e4, "class": 5e3}
SI_AS_THERE: Mapping[str, Any] = {"si_lowest": "none", "si_highest": 0.0, "si_damping": 0.1}
NAMES = {"finetune": "none", "ewc": "EWC", "si": "SI", "lwf": "LwF", "er": "ER", "joint": "joint"}


def in_our_terms(method: str, scenario: str) -> dict[str, Any]:
    """The settings that the other code has for a method."""
    own: dict[str, dict[str, Any]] = {
        "ewc": {"fisher": "exact", "ewc_lambda": EWC_LAMBDA[scenario] / 2},
        "si": {**SI_AS_THERE, "si_lambda": SI_C[scenario] * 2},
        # There, the distance is added up over past tasks where each has answers of its own.
        "lwf": {"temperature": 2.0, "weighting": "constant" if scenario == "class" else "each"},
        "er": {
            "batch_size": 256,
            "unmixed": "same",
            "weighting": "tasks",
            "buffer_capacity": 1000,
            "buffer_fill": "after",
            "policy": "class-balanced",
            # In scenario domain ten digits have two labels: there, the memory of 1,000 is shared among what has come.
            "most_per_class": 0 if scenario == "domain" else 100,
        },
    }
    return own.get(method, {})


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed, and in the order of the digits that goes with it."""

    method: str
    fields: Mapping[str, Any]
    outside: tuple[float, ...] = ()
    """What the other code came to: seed 0, then seed 1."""

    def spec(self, seed: int) -> RunSpec:
        # There, seed 0 takes the digits in order; every other permutes them.
        order: Any = DIGITS if seed == 0 else seed
        return RunSpec(**{"method": self.method, **self.fields, "class_order": order, "seed": seed})


# Final accuracy in percent, the plain mean over the five tasks; run on a CPU for this comparison.
OUTSIDE: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "task": {
        "finetune": (89.4, 91.0),
        "ewc": (99.2, 99.4),
        "si": (99.2, 99.1),
        "lwf": (99.8,),
        "er": (99.2,),
        "joint": (99.8,),
    },
    "domain": {
        "finetune": (56.5, 64.6),
        "ewc": (74.5, 68.4),
        "si": (72.6, 69.2),
        "lwf": (77.8,),
        "er": (94.1,),
        "joint": (98.6,),
    },
    "class": {
        "finetune": (19.9,),
        "ewc": (19.7,),
        "si": (21.4,),
        "lwf": (20.9,),
        "er": (87.7, 89.1),
        "joint": (98.1,),
    },
}
# Means of 20 seeds that a figure in that repository shows, read by eye.
FIGURE: Mapping[str, Mapping[str, float]] = {
    "task": {"finetune": 84.0},
    "domain": {"finetune": 59.5, "ewc": 62.0, "si": 68.0, "lwf": 71.5, "er": 94.0},
    "class": {"er": 89.0},
}


def _arms() -> dict[str, Arm]:
    arms = {}
    for scenario in ("task", "domain", "class"):
        for method in NAMES:
            fields = {**SPLIT, "scenario": scenario, **in_our_terms(method, scenario)}
            arms[f"{scenario}/{method}"] = Arm(method, fields, OUTSIDE[scenario][method])
    permuted: dict[str, dict[str, Any]] = {
        "finetune": {},
        "ewc": {"fisher": "examples", "ewc_lambda": 250.0},
        "si": {**SI_AS_THERE, "si_lambda": 10.0},
    }
    for method, own in permuted.items():
        arms[f"permuted/{method}"] = Arm(method, {**PERMUTED, **own})
    return arms


ARMS: Mapping[str, Arm] = _arms()
SECTIONS = {**{name: f"Split MNIST, scenario {name}" for name in SCENARIOS}, "permuted": "Permuted MNIST, domain"}
