"""The paper's tables and figures as data: what it ran, what it published, how it laid it out.

Bamnodkar, "Task-Focused Consolidation with Spaced Recall", September 2025. One run each, seed 42. Where its text, its
algorithm and its released code disagree, the code is what made the numbers, and the numbers are what is reproduced.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfcsr.spec import Parts, RunSpec

MNIST, CIFAR = "split-mnist", "split-cifar100"
CAPACITIES = (100, 500, 1000, 2000)
THRESHOLDS = (10, 20, 30, 50, 70, 90, 99)

# On other data than the paper's, a buffer is so large in proportion to that benchmark's own.
CAPACITY_LIKE_DEFAULT = {MNIST: 200, CIFAR: 250}


@dataclass(frozen=True)
class Published:
    """What the paper reports of one run: accuracy over all classes seen after each task, and what it counted."""

    curve: tuple[float, ...]
    replay_batches: int | None = None
    memory_checks: int | None = None
    epochs_per_task: tuple[int, ...] | None = None

    def value(self, quantity: str) -> float | None:
        if quantity == "final_accuracy":
            return self.curve[-1]
        if quantity == "epochs":
            return None if self.epochs_per_task is None else float(sum(self.epochs_per_task))
        counted: int | None = getattr(self, quantity)
        return None if counted is None else float(counted)


_THRESHOLD_10 = (75.6, 52.55, 44.43, 36.6, 29.06, 26.7, 23.53, 18.1, 17.68, 13.17)

PUBLISHED: Mapping[str, Published] = {
    "mnist/finetune": Published((100.0, 51.43, 16.44, 12.31, 10.28)),
    "mnist/er": Published((93.22, 92.85, 90.14, 88.43, 90.44)),
    "mnist/ewc": Published((100.0, 51.45, 31.34, 25.33, 20.37)),
    "mnist/si": Published((100.0, 57.04, 52.92, 42.3, 32.58)),
    "mnist/tfcsr": Published((100.0, 96.66, 92.38, 89.0, 86.22)),
    "cifar/finetune": Published((76.0, 42.45, 23.9, 16.98, 12.36, 12.8, 10.69, 8.7, 9.04, 7.27)),
    "cifar/er-100": Published((77.7, 43.0, 32.5, 21.65, 16.8, 15.03, 12.5, 10.39, 10.3, 8.51), 15_800, 0),
    "cifar/er-500": Published((75.7, 51.45, 39.5, 29.23, 23.02, 20.25, 18.51, 14.96, 11.54, 9.31), 15_800, 0),
    "cifar/er-1000": Published((72.6, 49.55, 39.67, 26.5, 21.78, 20.02, 16.59, 12.47, 10.78, 7.4), 15_800, 0),
    "cifar/er-2000": Published((78.0, 59.95, 53.5, 42.17, 36.2, 32.6, 30.93, 26.1, 24.92, 21.37), 15_800, 0),
    "cifar/tfcsr-100": Published((76.8, 46.2, 33.6, 22.32, 16.4, 15.3, 12.86, 10.62, 10.21, 8.55), 15_800, 50),
    "cifar/tfcsr-500": Published((76.3, 50.1, 40.9, 30.88, 25.14, 22.03, 18.37, 13.81, 12.14, 9.48), 15_800, 50),
    "cifar/tfcsr-1000": Published(_THRESHOLD_10, 15_800, 50),
    "cifar/tfcsr-2000": Published((77.4, 59.75, 50.7, 39.6, 33.56, 31.85, 28.91, 22.93, 22.6, 19.72), 15_800, 50),
    "cifar/threshold-10": Published(_THRESHOLD_10, 15_800, 50),
    "cifar/threshold-20": Published(_THRESHOLD_10, 15_800, 50),
    "cifar/threshold-30": Published(_THRESHOLD_10, 15_800, 50),
    "cifar/threshold-50": Published(_THRESHOLD_10, 15_800, 50),
    "cifar/threshold-70": Published((77.3, 55.15, 46.1, 36.15, 27.32, 25.57, 23.36, 18.16, 17.39, 12.45), 15_800, 51),
    "cifar/threshold-90": Published((77.9, 56.8, 44.73, 34.35, 29.62, 26.13, 23.9, 18.16, 18.89, 13.17), 15_800, 63),
    "cifar/threshold-99": Published((74.7, 54.15, 42.53, 34.35, 29.04, 25.1, 23.63, 18.48, 15.68, 11.58), 15_800, 103),
    "cifar/spaced": Published((76.6, 44.75, 28.57, 21.77, 18.26, 17.57, 15.94, 12.81, 11.77, 10.18), 3_555, 45),
    "cifar/mgp": Published(
        (85.1, 60.4, 48.93, 39.0, 31.54, 26.5, 22.14, 15.8, 12.67, 11.63),
        epochs_per_task=(47, 9, 22, 50, 50, 9, 15, 18, 7, 19),
    ),
    "cifar/ewc": Published((79.0, 38.0, 23.1, 15.5, 10.46, 11.9, 9.4, 7.9, 8.39, 6.16)),
    "cifar/si": Published((79.0, 42.3, 25.2, 18.15, 14.16, 13.75, 11.84, 10.66, 9.78, 8.15)),
}


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed alone. `alone`: run as it stands, also where another run is known to hold it.
    `most_seeds`: no more than so many, where there is nothing to average or the price is high.
    """

    benchmark: str
    fields: Mapping[str, Any]
    alone: bool = False
    most_seeds: int | None = None

    def spec(self, seed: int, data: str | None = None) -> RunSpec:
        """The run with this seed; on other data than the paper's with a buffer in proportion."""
        fields = {"benchmark": self.benchmark, "protocol": "paper", "deterministic": True, "seed": seed, **self.fields}
        if data is not None:
            default = RunSpec(benchmark=data)
            capacity = fields["buffer_capacity"] * default.buffer_capacity // CAPACITY_LIKE_DEFAULT[self.benchmark]
            fields |= {"benchmark": data, "buffer_capacity": max(capacity, default.batch_size // 2)}
        # One table of settings for all methods: each takes those it has.
        applies = Parts(fields).options
        return RunSpec.from_dict({name: value for name, value in fields.items() if name in applies})


def _arms() -> dict[str, Arm]:
    def mnist(method: str, **fields: Any) -> Arm:
        settings = {"method": method, "buffer_capacity": 200, "mastery_threshold": 95.0, "augment": "none"}
        return Arm(MNIST, settings | {"ewc_lambda": 1e4, "si_lambda": 100.0} | fields)

    def cifar(method: str, augment: str, **fields: Any) -> Arm:
        settings = {"method": method, "buffer_capacity": 1000, "mastery_threshold": 10.0, "augment": augment}
        return Arm(CIFAR, settings | {"ewc_lambda": 1e4, "si_lambda": 1.0} | fields)

    arms = {f"mnist/{method}": mnist(method) for method in ("finetune", "er", "ewc", "si", "tfcsr")}
    arms["mnist/er-stale"] = mnist("er", new_task="last")
    for protocol, augment in (("augmented", "crop-flip"), ("plain", "none")):
        rows = {method: cifar(method, augment) for method in ("finetune", "ewc", "si")}
        rows["mgp"] = cifar("mgp", augment, mastery_threshold=85.0)
        if protocol == "plain":  # in no table, and up to five times as long as another run
            rows["mgp"] = replace(rows["mgp"], most_seeds=3)
        rows["spaced"] = cifar("tfcsr-spaced", augment)
        for capacity in CAPACITIES:
            rows[f"er-{capacity}"] = cifar("er", augment, buffer_capacity=capacity)
            rows[f"tfcsr-{capacity}"] = cifar("tfcsr", augment, buffer_capacity=capacity)
        for threshold in THRESHOLDS:
            rows[f"threshold-{threshold}"] = cifar("tfcsr", augment, mastery_threshold=float(threshold))
        arms |= {f"cifar/{name}/{protocol}": arm for name, arm in rows.items()}

    # The audit's own. Bits are equal or not: two seeds are enough for that.
    make: dict[str, Callable[..., Arm]] = {"mnist": mnist, "cifar": functools.partial(cifar, augment="crop-flip")}
    for name in make:
        for method in ("er", "tfcsr"):
            arms[f"{name}/{method}/alone"] = replace(make[name](method), alone=True, most_seeds=2)
        for mode in ("train", "placebo"):
            arms[f"{name}/probe-{mode}"] = make[name]("tfcsr", probe_mode=mode)
    arms["cifar/mgp/held-out"] = cifar("mgp", "crop-flip", mastery_threshold=85.0, gate_data="held-out", held_out=0.1)
    for key, grid in GRIDS.items():
        for value in grid.values:
            arm = make[key.partition("/")[0]](grid.method, held_out=0.1, **{grid.field: value})
            arms[grid.arm(value)] = replace(arm, most_seeds=None if grid.benchmark == MNIST else 1)
    return arms


@dataclass(frozen=True)
class Grid:
    """A setting the paper chose by the best final test accuracy, and the values it tried."""

    benchmark: str
    method: str
    field: str
    values: tuple[float, ...]
    published: float

    def arm(self, value: float) -> str:
        return f"{'mnist' if self.benchmark == MNIST else 'cifar'}/{self.method}-grid-{value:g}"


GRIDS: Mapping[str, Grid] = {
    "mnist/ewc": Grid(MNIST, "ewc", "ewc_lambda", (1.0, 100.0, 1e3, 1e4), 1e4),
    "mnist/si": Grid(MNIST, "si", "si_lambda", (0.1, 1.0, 10.0, 100.0), 100.0),
    "cifar/ewc": Grid(CIFAR, "ewc", "ewc_lambda", (1e3, 1e4, 1e5), 1e4),
    "cifar/si": Grid(CIFAR, "si", "si_lambda", (1.0, 10.0, 100.0, 1e3), 1.0),
}

ARMS: Mapping[str, Arm] = _arms()


@dataclass(frozen=True)
class Row:
    """A line of a table or a curve of a figure: what the paper calls it, our runs, and what it published of them."""

    label: str
    arm: str
    published: str | None
    x: float | None = None  # its place on the axis of a plot against capacity
    series: str | None = None  # the line it belongs to there

    @property
    def value(self) -> Published | None:
        return None if self.published is None else PUBLISHED[self.published]


@dataclass(frozen=True)
class Target:
    """A figure or table of the paper. `kind`: `curves` after each task, `capacity` with a log axis, `table` without a
    picture, `choices` of settings. `quantities` are what its table shows of each row.
    """

    title: str
    kind: str
    rows: tuple[Row, ...] = ()
    quantities: tuple[str, ...] = ("final_accuracy",)
    grids: tuple[str, ...] = ()
    more: tuple[Row, ...] = field(default=())  # not in the paper: what a reader needs beside it

    def arms(self) -> list[str]:
        own = [row.arm for row in (*self.rows, *self.more)]
        return own + [GRIDS[name].arm(value) for name in self.grids for value in GRIDS[name].values]


# Which of its two definitions of the CIFAR-100 benchmark a published run used is a hypothesis; the audit tests it.
PLAIN = ("finetune", "er-1000")


def _cifar(label: str, name: str, **place: Any) -> Row:
    return Row(label, f"cifar/{name}/{'plain' if name in PLAIN else 'augmented'}", f"cifar/{name}", **place)


_ER, _TFCSR, _SPACED = _cifar("Standard ER", "er-1000"), _cifar("TFC-SR", "tfcsr-1000"), "TFC-SR (Spaced Replay)"
_ER_ALIKE = Row("Standard ER, augmented as TFC-SR", "cifar/er-1000/augmented", None)
_BUFFERS = tuple(
    _cifar(f"{label}, capacity {capacity}", f"{name}-{capacity}", x=capacity, series=label)
    for label, name in (("Standard ER", "er"), ("TFC-SR", "tfcsr"))
    for capacity in CAPACITIES
)
_THRESHOLD_ROWS = tuple(_cifar(f"threshold {t} %", f"threshold-{t}") for t in THRESHOLDS)

TARGETS: Mapping[str, Target] = {
    "fig1": Target(
        "Figure 1: methods on Split MNIST",
        "curves",
        (
            Row("Sequential Fine-tuning", "mnist/finetune", "mnist/finetune"),
            Row("Standard ER", "mnist/er-stale", "mnist/er"),
            Row("EWC", "mnist/ewc", "mnist/ewc"),
            Row("SI", "mnist/si", "mnist/si"),
            Row("TFC-SR", "mnist/tfcsr", "mnist/tfcsr"),
        ),
        more=(Row("Standard ER, with the right data", "mnist/er", None),),
    ),
    "fig2": Target(
        "Figure 2: methods on Split CIFAR-100",
        "curves",
        (_cifar("Sequential Fine-tuning", "finetune"), _ER, _cifar("EWC", "ewc"), _cifar("SI", "si"), _TFCSR),
        more=(_ER_ALIKE,),
    ),
    "fig3": Target("Figure 3: final accuracy by buffer capacity", "capacity", _BUFFERS, more=(_ER_ALIKE,)),
    "table1": Target("Table 1: the chosen settings", "choices", grids=tuple(GRIDS)),
    "table2": Target("Table 2: final accuracy by buffer capacity", "table", _BUFFERS, more=(_ER_ALIKE,)),
    "table3": Target(
        "Table 3: replay batches, memory checks and accuracy",
        "table",
        (_ER, _TFCSR, _cifar(_SPACED, "spaced")),
        ("replay_batches", "memory_checks", "final_accuracy"),
        more=(_ER_ALIKE,),
    ),
    "table-a1": Target("Table A.1: mastery thresholds", "table", _THRESHOLD_ROWS, ("memory_checks", "final_accuracy")),
    "fig-a1": Target("Figure A.1: mastery thresholds", "curves", (*_THRESHOLD_ROWS, _ER), more=(_ER_ALIKE,)),
    "fig-b1": Target("Figure B.1: TFC-SR by buffer capacity", "curves", _BUFFERS[4:]),
    "fig-b2": Target("Figure B.2: Standard ER by buffer capacity", "curves", _BUFFERS[:4], more=(_ER_ALIKE,)),
    "fig-c1": Target(
        "Figure C.1: spaced replay", "curves", (_cifar(_SPACED, "spaced"), _TFCSR, _ER), more=(_ER_ALIKE,)
    ),
    "fig-d1": Target(
        "Figure D.1: mastery-gated progression",
        "curves",
        (_cifar("MGP", "mgp"), _TFCSR, _ER),
        ("epochs", "final_accuracy"),
        more=(_ER_ALIKE,),
    ),
}


@dataclass(frozen=True)
class Headline:
    """A line of the main table: as published, and with every method treated alike."""

    benchmark: str
    label: str
    published: str
    arm: str
    alike: str


# What it calls the methods in figures.
METHODS = {
    "Sequential Fine-tuning": "finetune",
    "Standard ER": "er",
    "EWC": "ewc",
    "SI": "si",
    "TFC-SR": "tfcsr",
    "TFC-SR (Spaced Replay)": "tfcsr-spaced",
    "MGP": "mgp",
}
_METHODS = {"finetune": "fine-tuning", "ewc": "EWC", "si": "SI", "er": "ER", "tfcsr": "TFC-SR"}
_MORE = {"spaced": "TFC-SR, spaced replay", "mgp": "MGP"}
SUMMARY = (
    *(
        Headline("Split MNIST", label, f"mnist/{m}", "mnist/er-stale" if m == "er" else f"mnist/{m}", f"mnist/{m}")
        for m, label in _METHODS.items()
    ),
    *(
        Headline("Split CIFAR-100", label, row.published or "", row.arm, f"{row.published}/augmented")
        for m, label in (_METHODS | _MORE).items()
        for row in [_cifar(label, f"{m}-1000" if m in ("er", "tfcsr") else m)]
    ),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "mnist": ("fig1",),
    "cifar": tuple(name for name in TARGETS if name not in ("fig1", "table1")),
    "all": (*TARGETS, "audit"),
}
NAMES = (*TARGETS, *GROUPS, "audit")

# What the audit looks at: every row of tables 2, 3 and A.1, and of figure 2, under both protocols.
BOTH_PROTOCOLS = (
    *(f"{name}-{capacity}" for name in ("er", "tfcsr") for capacity in CAPACITIES),
    *(f"threshold-{t}" for t in (70, 90, 99)),
    "spaced",
    "finetune",
    "ewc",
    "si",
    "mgp",
)


def audit_arms() -> list[str]:
    names = ["mnist/er", "mnist/er-stale", "mnist/tfcsr", "cifar/mgp/held-out"]
    names += [name for name in ARMS if name.endswith("/alone") or "/probe-" in name]
    names += [f"cifar/{row}/{protocol}" for row in BOTH_PROTOCOLS for protocol in ("augmented", "plain")]
    return names + [grid.arm(value) for grid in GRIDS.values() for value in grid.values]
