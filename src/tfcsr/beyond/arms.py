"""The runs behind our own claims, as data: what is trained, and in which section it is shown.

The budget is the paper's: Split CIFAR-100 in 10 tasks, ResNet-18 from scratch, class order 42, 20 epochs of 79 steps of
64 images a task, a memory of 1,000. All methods have one recipe, chosen for ours on held-out training data; section
`choices` asks whether the others would rather have another.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfcsr.spec import Parts, RunSpec

CIFAR, MNIST = "split-cifar100", "split-mnist"
OURS = "tfcsr-distill"
EPOCHS = 20
BLOCK = 5
# Where the schedule of the paper is due when everything passes; and in tasks of 50 epochs.
SPACED = "1,3,5,8,13"
SPACED_LONG = f"{SPACED},21,32,49"

RECIPE: Mapping[str, Any] = {
    "benchmark": CIFAR,
    "augment": "strong",
    "optimizer": "adamw",
    "lr": 7e-4,
    "weight_decay": 0.1,
    "lr_schedule": "cosine",
    "warmup_epochs": 1.0,
    "policy": "class-balanced",
    "new_data": "half",
    "joint_epoch": "newest",
    "deterministic": True,
}
# The paper's, without its frozen views.
PLAIN: Mapping[str, Any] = dict(RECIPE) | {
    "augment": "crop-flip",
    "optimizer": "adam",
    "lr": 1e-3,
    "weight_decay": 0.0,
    "lr_schedule": "constant",
    "warmup_epochs": 0.0,
    "policy": "reservoir",
}
# iCaRL chooses its exemplars itself, and so do we.
OF_METHOD: Mapping[str, Mapping[str, Any]] = {"icarl": {"policy": "herding"}, OURS: {"policy": "herding"}}


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed alone, or in what `by_seed` makes of it."""

    label: str
    fields: Mapping[str, Any]
    seeds: int | None = None
    """The most it has; None: as many as are asked for."""
    first_seed: int = 0
    times: int = 1
    """How many runs it has for each seed that is asked for, where a run takes no time."""
    by_seed: Callable[[int], Mapping[str, Any]] | None = None
    matches: str | None = None
    """The arm that says how much this one may replay: it is fixed when that one's runs are known."""
    yoked: bool = False
    """Whether it replays when a run of that arm with another seed did; else as much as the one with its own."""
    later: bool = False
    """Whether its epochs, evenly spread, begin with the second task, as in the arm that it matches."""
    per_class: bool = False
    """Whether what there is of each class is kept."""

    def spec(self, seed: int, **more: Any) -> RunSpec:
        fields = dict(self.fields) | {"seed": seed} | (dict(self.by_seed(seed)) if self.by_seed else {}) | more
        fields = {name: value for name, value in fields.items() if value is not None}
        # One recipe for all methods: each takes the settings it has.
        applies = Parts(fields).options
        return RunSpec.from_dict({name: value for name, value in fields.items() if name in applies})


def with_recipe(method: str, recipe: Mapping[str, Any] = RECIPE, **fields: Any) -> dict[str, Any]:
    return {"method": method, **recipe, **OF_METHOD.get(method, {}), **fields}


def random_epochs(count: int) -> Callable[[int], Mapping[str, Any]]:
    """A control: so many epochs of each task, drawn by the seed."""

    def draw(seed: int) -> Mapping[str, Any]:
        chosen = random.Random(f"replay epochs {seed}").sample(range(1, EPOCHS + 1), count)
        return {"replay_epochs": ",".join(map(str, sorted(chosen)))}

    return draw


def spread_epochs(count: int, epochs: int = EPOCHS) -> str:
    """So many epochs of a task, evenly spread, the last one among them."""
    count = min(count, epochs)
    if count <= 0:
        return "none"
    return ",".join(str(round(epochs * (i + 1) / count)) for i in range(count))


def partner(seed: int) -> int:
    """The seed that a yoked run has its epochs from: the next of its five, so that every run's are used once."""
    block = seed - seed % BLOCK
    return block + (seed + 1) % BLOCK


# Where replay happens: what it is called, and the fields that say so.
WHEN: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "every": ("every epoch", {"replay_epochs": "all"}),
    "spaced": ("epochs 1, 3, 5, 8, 13", {"replay_epochs": SPACED}),
    "fourth": ("every fourth epoch", {"replay_epochs": spread_epochs(5)}),
    "two": ("epochs 10, 20", {"replay_epochs": spread_epochs(2)}),
    "one": ("epoch 20", {"replay_epochs": spread_epochs(1)}),
    "none": ("never", {"replay_epochs": "none"}),
    "sixteen": ("every epoch, 16 of 64", {"replay_epochs": "all", "replay_per_batch": 16}),
    "eight": ("every epoch, 8 of 64", {"replay_epochs": "all", "replay_per_batch": 8}),
    "random": ("5 random epochs", {}),
    "same-new": (
        "epochs 1, 3, 5, 8, 13, as many new images as with every",
        {"replay_epochs": SPACED, "unmixed": "same"},
    ),
}
# Tasks as long as the field's. Replay in every epoch is ahead there while little is old, and behind at the end, on test
# data: hence `eased`. It was fixed before it was run; the page says what it was thought of by, and shows all that was
# tried.
LONG: Mapping[str, Any] = {"epochs": 50, "new_data": "all"}
WHEN_LONG: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "spaced": ("spaced replay", {}),
    "every": ("replay in every epoch", {"replay_epochs": "all"}),
    "fourth": ("replay in every fourth epoch", {"replay_epochs": spread_epochs(12, 50)}),
    "eased": (
        "replay in every epoch of tasks 2 and 3, then spaced",
        {"replay_epochs": f"none/all/all/{SPACED_LONG}"},
    ),
}
# By the size of the memory, which of these are run.
IN_FIELD: Mapping[int, tuple[str, ...]] = {500: ("spaced",), 2000: tuple(WHEN_LONG)}
# Those whose replay is placed otherwise.
REPLAYING = ("er", "er-ace", OURS)
# Where it is asked how little replay is enough, or what there is to gain, arms have as many seeds as are asked for. The
# others lose so much that three tell, or are controls of methods that are not ours.
THREE = 3
IN_FULL: Mapping[str, tuple[str, ...]] = {
    "er": ("every",),
    "er-ace": ("every", "spaced", "fourth"),
    OURS: ("every", "spaced", "fourth", "two", "one", "random", "same-new"),
    "adapting": ("sm2", "fsrs"),
    "ablation": ("features", "cutmix", "strong"),
}
# The same with the small CNN, which a CPU can do: in which of these ways each of them is tried.
CNN = "cnn"
LONG_WITH_CNN = f"elsewhere/{CNN}/long"
WITH_CNN: Mapping[str, tuple[str, ...]] = {
    "er": ("every", "spaced", "eight"),
    "er-ace": ("every", "spaced", "fourth", "eight", "same-new"),
    OURS: ("every", "spaced", "fourth", "eight", "same-new"),
}
# What they do if nothing is said.
BY_ITSELF: Mapping[str, str] = {"er": "every", "er-ace": "every", OURS: "spaced"}
NAMES = {"er": "ER", "er-ace": "ER-ACE", "derpp": "DER++", "icarl": "iCaRL", OURS: OURS, "joint": "joint"}
# The others that may have a herded memory as well.
HERDED = ("er", "er-ace", "derpp")
ADAPTIVE: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "leitner-class": ("Leitner boxes, each class", {"schedule": "leitner", "schedule_per": "class"}),
    "sm2": ("SM-2, the memory", {"schedule": "sm2"}),
    "fsrs": ("FSRS, the memory", {"schedule": "fsrs"}),
}
EXAM: Mapping[str, Any] = {"exam_share": 0.1}
WITH_EXAM = "a tenth of the memory is an exam"
# By the schedule alone, however little it asks for.
DRIVEN: Mapping[str, Any] = {"replay_epochs": "due", "replay_least": 0, "consolidate_at": 0.0}
# Benchmarks of five tasks with which a run takes seconds on a CPU: how often each is run, and what it is.
SMALL: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "digits": (6, {"benchmark": "split-digits", "augment": "none", "buffer_capacity": 50, "epochs": EPOCHS}),
    "mnist": (
        2,
        {"benchmark": MNIST, "augment": "none", "buffer_capacity": 200, "epochs": EPOCHS, "max_per_class": 500},
    ),
}
# All of them replay in 20 epochs of the four tasks that have something to replay.
LISTED: Mapping[str, tuple[str, str]] = {
    "even": ("evenly spread: 4, 8, 12, 16, 20", spread_epochs(5)),
    "spaced": ("the paper's: 1, 3, 5, 8, 13", SPACED),
    "first": ("the first: 1 to 5", "1,2,3,4,5"),
    "last": ("the last: 16 to 20", "16,17,18,19,20"),
    "rising": (
        "evenly spread, more from task to task: 2, 3, 5, 10",
        "/".join(("none", *map(spread_epochs, (2, 3, 5, 10)))),
    ),
    "falling": (
        "evenly spread, fewer from task to task: 10, 5, 3, 2",
        "/".join(("none", *map(spread_epochs, (10, 5, 3, 2)))),
    ),
}
# The paper's variant whose probe decides when to replay; and ER, which has that loss and no probe.
SQUARED: Mapping[str, str] = {
    "own": "`tfcsr-spaced`: its probe decides",
    "yoked": "ER when another seed's probe decided so",
    "fixed": "ER in as many epochs, evenly spread",
    "every": "ER in every epoch",
}
# Each ingredient taken away, once.
WITHOUT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "asymmetric": ("new examples compete with all classes", {"new_classes": "all"}),
    "distillation": ("no distillation", {"distill_weight": 0.0}),
    "scaling": ("its weight does not grow", {"distill_scaling": "none"}),
    "features": ("no distillation of features", {"feature_weight": 0.0}),
    "cutmix": ("no CutMix", {"cutmix": 0.0}),
    "cosine": ("constant learning rate", {"lr_schedule": "constant", "warmup_epochs": 0.0}),
    "strong": ("crop and flip alone", {"augment": "crop-flip"}),
    "herding": ("class-balanced instead of herded memory", {"policy": "class-balanced"}),
}
# Runs that are made again with a loss in which each class weighs as much as its share of training; when they replay.
BALANCED: Mapping[str, str] = {
    f"accuracy/{OURS}": WHEN["spaced"][0],
    f"frontier/{OURS}/every": WHEN["every"][0],
    "field/500/spaced": WHEN_LONG["spaced"][0],
    "field/2000/spaced": WHEN_LONG["spaced"][0],
    f"elsewhere/mnist/{OURS}": "by its own rule",
    f"elsewhere/{CNN}/{OURS}": WHEN["spaced"][0],
    f"elsewhere/{CNN}/frontier/{OURS}/every": WHEN["every"][0],
    **{f"small/{small}/frontier/{OURS}/{when}": WHEN[when][0] for small in SMALL for when in ("spaced", "every")},
}
# Of these, two that differ in how much they replay: less, then more.
LESS_REPLAY: Mapping[str, str] = {
    f"accuracy/{OURS}": f"frontier/{OURS}/every",
    f"elsewhere/{CNN}/{OURS}": f"elsewhere/{CNN}/frontier/{OURS}/every",
    **{f"small/{small}/frontier/{OURS}/spaced": f"small/{small}/frontier/{OURS}/every" for small in SMALL},
}
# What a memory may keep instead of what herding chooses; class-balanced is there without herding.
POLICIES = ("reservoir", "ipm", "gradient")


def _arms() -> dict[str, Arm]:
    arms: dict[str, Arm] = {}
    for method, name in NAMES.items():
        keeps = method in ("er", OURS)  # of these two it is asked what the probe is worth
        arms[f"accuracy/{method}"] = Arm(name, with_recipe(method), per_class=keeps)
    for method in REPLAYING:
        arms |= {
            f"frontier/{method}/{when}": replace(_placed(method, when), seeds=_seeds(method, when)) for when in WHEN
        }
    # What a method does by itself is not run twice.
    for method, when in BY_ITSELF.items():
        arms[f"frontier/{method}/{when}"] = arms[f"accuracy/{method}"]
    arms |= {name: replace(arm, seeds=_seeds(*name.split("/")[:2])) for name, arm in _adapting("adapting").items()}
    for small, (times, fields) in SMALL.items():
        arms |= {f"small/{small}/{name}": replace(arm, times=times) for name, arm in _small(fields).items()}
        arms |= _adapting(f"small/{small}/adapting", times, **fields)
        arms |= _squared(f"small/{small}/squared", times, **fields)
    for method in ("er", OURS):
        arms[f"exam/{method}"] = Arm(f"{NAMES[method]} with an exam", with_recipe(method, **EXAM), per_class=True)
    for name, (label, fields) in WITHOUT.items():
        arms[f"ablation/{name}"] = Arm(label, with_recipe(OURS, **fields), seeds=_seeds("ablation", name))
    for policy in POLICIES:
        arms[f"policies/{policy}"] = Arm(policy, with_recipe(OURS, policy=policy), seeds=THREE)
    # On held-out data a herded memory is better for these too: they are not to lag behind for want of it.
    for method in HERDED:
        label, fields = f"{NAMES[method]}, herded", with_recipe(method, policy="herding")
        arms[f"policies/herded/{method}"] = Arm(label, fields, seeds=THREE)
    for memory, ways in IN_FIELD.items():
        for when in ways:
            label, fields = WHEN_LONG[when]
            long = with_recipe(OURS, **LONG, buffer_capacity=memory, **fields)
            arms[f"field/{memory}/{when}"] = Arm(f"{OURS}, {label}", long, seeds=THREE)
    for method, name in NAMES.items():
        mnist: dict[str, Any] = {"benchmark": MNIST, "augment": "none", "buffer_capacity": 200, "epochs": 10}
        arms[f"elsewhere/mnist/{method}"] = Arm(name, with_recipe(method, **mnist))
        for tasks in (20, 50):
            arms[f"elsewhere/{tasks}-tasks/{method}"] = Arm(name, with_recipe(method, tasks=tasks), seeds=THREE)
        arms[f"elsewhere/{CNN}/{method}"] = Arm(name, with_recipe(method, model=CNN), seeds=THREE)
    for method, ways in WITH_CNN.items():
        placed = {when: _placed(method, when, model=CNN) for when in ways}
        arms |= {f"elsewhere/{CNN}/frontier/{method}/{when}": replace(arm, seeds=THREE) for when, arm in placed.items()}
        arms[f"elsewhere/{CNN}/frontier/{method}/{BY_ITSELF[method]}"] = arms[f"elsewhere/{CNN}/{method}"]
    for when, (label, fields) in WHEN_LONG.items():
        long = with_recipe(OURS, model=CNN, **LONG, buffer_capacity=max(IN_FIELD), **fields)
        arms[f"{LONG_WITH_CNN}/{when}"] = Arm(label, long, seeds=THREE)
    for name, fields in _choices().items():
        arms[f"choices/{name}"] = Arm(name, {**fields, "held_out": 0.1}, seeds=1, first_seed=100)
    arms = {name: arm if name.startswith("small/") else _as_on_gpu(arm) for name, arm in arms.items()}
    return arms | {balanced(name): _balanced(arms[name]) for name in BALANCED}


def balanced(name: str) -> str:
    """The arm that is this one with the balanced loss."""
    return f"balanced/{name}"


def _balanced(arm: Arm) -> Arm:
    return replace(arm, fields={**arm.fields, "new_classes": "balanced"}, per_class=False)


def _as_on_gpu(arm: Arm) -> Arm:
    """On a CPU too it has the precision of a GPU: it is that of the runs it is held against, and faster."""
    return replace(arm, fields={**arm.fields, "precision": "bf16"})


def _seeds(of: str, name: str) -> int | None:
    """How many at the most: of a method and when it replays, or of a section and what it asks."""
    return None if name in IN_FULL[of] else THREE


def _placed(method: str, when: str, **more: Any) -> Arm:
    """A method that replays then."""
    label, fields = WHEN[when]
    # With replay in every epoch the others mix batches in the first task too, and we do not.
    own = {"unmixed": "later"} if (method, when) == (OURS, "same-new") else {}
    by_seed = random_epochs(5) if when == "random" else None
    return Arm(label, with_recipe(method, **{**more, **fields, **own}), by_seed=by_seed)


def _adapting(section: str, times: int = 1, **more: Any) -> dict[str, Arm]:
    """Schedules that the exam drives, and what they are held against."""
    arms, replaying = {}, with_recipe(OURS, **EXAM, **DRIVEN, **more)
    for name, (label, fields) in ADAPTIVE.items():
        arm = f"{section}/{name}"
        arms[arm] = Arm(label, {**replaying, **fields}, times=times)
        arms[f"{arm}/fixed"] = Arm(f"{label}: fixed, the same replay", replaying, times=times, matches=arm)
        if fields.get("schedule_per") != "class":  # which replays some classes now, others then
            arms[f"{arm}/yoked"] = Arm(f"{label}: yoked", replaying, times=times, matches=arm, yoked=True)
    return arms


def _squared(section: str, times: int, **benchmark: Any) -> dict[str, Arm]:
    """The paper's spaced replay with the paper's recipe, and what it is held against."""
    own = f"{section}/own"
    spaced, er = (with_recipe(method, PLAIN, **benchmark) for method in ("tfcsr-spaced", "er"))
    return {
        own: Arm(SQUARED["own"], spaced, times=times),
        f"{section}/yoked": Arm(SQUARED["yoked"], er, times=times, matches=own, yoked=True),
        f"{section}/fixed": Arm(SQUARED["fixed"], er, times=times, matches=own, later=True),
        f"{section}/every": Arm(SQUARED["every"], {**er, "replay_epochs": "all"}, times=times),
    }


def _small(benchmark: Mapping[str, Any]) -> dict[str, Arm]:
    """The questions of other sections, where a run takes seconds."""

    def ours(**fields: Any) -> dict[str, Any]:
        return with_recipe(OURS, **{**benchmark, **fields})

    arms = {"whole": Arm("all of it", ours())}
    for method in REPLAYING:
        for when in WHEN:
            arms[f"frontier/{method}/{when}"] = _placed(method, when, **benchmark, **DRIVEN)
    for when, (label, listed) in LISTED.items():
        arms[f"timing/{when}"] = Arm(label, ours(**EXAM, **{**DRIVEN, "replay_epochs": listed}))
    for name, (label, fields) in WITHOUT.items():
        if not {"augment", "cutmix"} & fields.keys():  # there is none to take away, and CutMix goes with it
            arms[f"ablation/{name}"] = Arm(label, ours(**fields))
    arms["ablation/exam"] = Arm(WITH_EXAM, ours(**EXAM))
    for policy in POLICIES:
        arms[f"policies/{policy}"] = Arm(policy, ours(policy=policy))
    return arms


def _choices() -> dict[str, dict[str, Any]]:
    """Settings tried on held-out training data, with a seed that no other run has."""
    tried = {"as it is": with_recipe(OURS)}
    for method in ("er", "er-ace", "derpp", "icarl"):
        tried[f"{NAMES[method]}, this recipe"] = with_recipe(method)
        tried[f"{NAMES[method]}, plain recipe"] = with_recipe(method, PLAIN)
    for method in HERDED:
        tried[f"{NAMES[method]}, herded memory"] = with_recipe(method, policy="herding")
    return tried


ARMS: Mapping[str, Arm] = _arms()
# In the order in which they are shown, and run.
SECTIONS: Mapping[str, str] = {
    "accuracy": "Accuracy at the paper's budget",
    "frontier": "The frontier: accuracy against replay",
    "adapting": "Does adapting pay?",
    "exam": "Is the exam honest?",
    "ablation": "What each ingredient is worth",
    "balanced": "New against old, balanced",
    "policies": "What the memory keeps",
    "field": "Against the field: 50 epochs",
    "elsewhere": "Elsewhere",
    "small": "The same questions on small benchmarks",
    "choices": "How the settings were chosen",
}


@dataclass(frozen=True)
class FieldValue:
    """What others published: class-incremental accuracy on CIFAR-100 in 10 tasks, by the size of the memory."""

    method: str
    accuracy: Mapping[int, float]
    source: str


_MAMMOTH = "X-DER's authors, in Mammoth (Boschini et al. 2022)"
FIELD = (
    FieldValue("DER++", {500: 38.3, 2000: 53.6}, _MAMMOTH),
    FieldValue("ER-ACE", {500: 38.8, 2000: 49.7}, _MAMMOTH),
    FieldValue("iCaRL", {500: 46.5, 2000: 49.8}, _MAMMOTH),
    FieldValue("X-DER", {500: 49.9, 2000: 59.1}, _MAMMOTH),
    FieldValue("X-DER", {500: 48.1, 2000: 57.6}, "a re-run by others"),
)
