"""Options drawn at random, many at once: a run ends in a result, or one line says why not, before or in it.

    python -m tests.nightly.combinations --runs 2000 --learners 5000

What ends is stopped somewhere and resumed, and is taken as steps are on a GPU: to the same bits. Learners are taught,
asked, told to forget, saved and loaded, in any order.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tfcsr
from tests.nightly.fuzz import is_refused
from tfcsr.methods import METHODS
from tfcsr.options import Option
from tfcsr.registry import Registry
from tfcsr.reporting.report import write_report
from tfcsr.spec import LearnerSpec, Parts
from tfcsr.testing import Recorder, captured, one_thread, outcome, stopped_and_resumed, trained

# Where and how it is run, what takes long, and what is drawn otherwise.
LEFT = {
    *("benchmark", "buffer_on", "checkpoint_every", "checkpoint_seconds", "class_order", "data_dir", "deterministic"),
    *("device", "epochs", "keep_model", "method", "model", "out", "precision", "processes", "seed", "sync_batch_norm"),
    *("batch_size", "threads"),
}
NUMBERS = (0, 1, 2, 3, 5, 8, 0.1, 0.3, 0.5, 0.9, 50, 95, 100)
LISTS = ("all", "none", "due", "2", "1,3", "none/1,2/3", "all/none/2")
# With dropout, the stand-in for CUDA graphs draws elsewhere than a plain step.
MODELS = ("tiny-linear", "tiny-bn", "tiny-dropout")
LABELS = ("a", "b", "c", "é", "6", "x y", 7)
# Else hardly anything would be tried.
MOST_REFUSED = 0.6

Fields = dict[str, Any]


def ours(registry: Registry[Any]) -> list[str]:
    """Not what other tests have added to this process: a seed is to draw the same every time."""
    return [name for name in registry.names() if registry.ships(name)]


def draw(rng: random.Random, option: Option) -> Any:
    """Mostly a value that it may have: else hardly a run would begin."""
    if option.name == "replay_epochs":
        return rng.choice(LISTS)
    if option.choices is not None:
        return rng.choice(ours(option.choices) if isinstance(option.choices, Registry) else option.choices)
    if option.type is bool:
        return rng.random() < 0.5
    if option.type not in (int, float):
        return option.default
    bounds = [bound for bound in (option.low, option.high) if abs(bound) < 1000]
    inside = [value for value in NUMBERS if option.low <= value <= option.high]
    found = rng.choice([*NUMBERS, *bounds] if rng.random() < 0.05 else inside or [option.default])
    return None if found is None else option.type(found)


def drawn(rng: random.Random, fields: Fields, of: Mapping[str, Option] | None, most: int) -> Fields:
    """These fields, and some of the options that go with them."""
    options = Parts(fields, of).options
    names = sorted(name for name in options if name not in LEFT and name not in fields)
    for name in rng.sample(names, min(len(names), rng.randint(0, most))):
        fields[name] = draw(rng, options[name])
    return {name: value for name, value in fields.items() if value is not None}


def told(what: object, action: Callable[[], bool]) -> bool:
    """What an action came to; what it was of where it failed."""
    try:
        return action()
    except BaseException:
        print(what)
        raise


def one_run(rng: random.Random) -> bool:
    """Whether it was refused."""
    fields: Fields = {"benchmark": "tiny", "method": rng.choice(ours(METHODS)), "model": rng.choice(MODELS)}
    fields |= {"epochs": rng.choice((1, 2, 4)), "batch_size": rng.choice((2, 3, 7, 16, 64))}
    fields = drawn(rng, fields, None, 12)
    place = rng.randint(1, 3), rng.randint(1, 3)
    whole: tuple[object, ...] = ()

    def ends(rng: random.Random) -> None:
        nonlocal whole
        whole = outcome(trained(**fields))

    def run() -> bool:
        if is_refused(ends, rng):
            return True
        resumed = stopped_and_resumed(*place, fields)
        assert resumed is None or outcome(resumed) == whole, f"resumed at {place} it ends elsewhere"
        if fields["model"] != "tiny-dropout":
            with one_thread():
                training = captured(Recorder(), **fields)
                training.run()
            assert training.weights_sha256() == whole[0], "captured steps do something else"
        return False

    return told(fields, run)


def runs(count: int, seed: int) -> str:
    rng = random.Random(seed)
    refused = sum(one_run(rng) for _ in range(count))
    assert refused < MOST_REFUSED * count
    return f"{count} runs, {refused} refused"


def examples(rng: random.Random, model: str) -> tuple[np.ndarray, list[Any]]:
    """Some, of a few classes; images, or numbers for an `mlp`."""
    y = [rng.choice(LABELS[: rng.randint(1, len(LABELS))]) for _ in range(rng.choice((1, 2, 3, 5, 12, 40)))]
    source = np.random.default_rng(rng.randrange(1 << 32))
    if model == "mlp":
        return source.normal(size=(len(y), 7)).astype(np.float32), y
    return source.integers(0, 256, (len(y), 1, 5, 5), dtype=np.uint8), y


def kept(learner: tfcsr.Learner, x: np.ndarray, folder: Path) -> tfcsr.Learner:
    """Saved, shown and loaded: it answers as before."""
    learner.save(folder)
    write_report(folder)
    loaded = tfcsr.Learner.load(folder)
    if learner.classes:
        assert list(learner.predict(x)) == list(loaded.predict(x)), "a loaded learner answers otherwise"
    return loaded


def one_learner(rng: random.Random, folder: Path) -> tuple[int, int]:
    """How many actions there were, and how many were refused."""
    model = rng.choice((*MODELS, "mlp"))
    fields: Fields = {"method": rng.choice(ours(METHODS)), "model": model, "device": "cpu", "threads": 1}
    fields |= {"epochs": rng.choice((1, 2)), "batch_size": rng.choice((2, 3, 7, 16, 64))}
    fields = drawn(rng, fields, LearnerSpec.fields(), 4)
    done: list[str] = []
    learner: tfcsr.Learner

    def begin(rng: random.Random) -> None:
        nonlocal learner
        learner = tfcsr.Learner(**fields)

    def act(rng: random.Random) -> None:
        nonlocal learner
        name = done[-1]
        x, y = examples(rng, model)
        if name == "learn":
            learner.learn(x, y)
        elif name == "predict":
            assert set(learner.predict(x)) <= set(learner.classes)
        elif name == "among":
            chances = learner.predict_proba(x, among=rng.sample(LABELS, 2))
            assert np.allclose(chances.sum(axis=1), 1, atol=1e-4)
        elif name == "recall":
            assert 0 <= learner.recall().overall <= 100
        elif name == "evaluate":
            assert 0 <= learner.evaluate(x, y).accuracy <= 100
        elif name == "forget":
            learner.forget(rng.choice(LABELS))
        else:
            learner = kept(learner, x, folder)

    if told(fields, lambda: is_refused(begin, rng)):
        return 1, 1
    refused = 0
    for _ in range(rng.randint(2, 7)):
        done.append(rng.choice(("learn",) * 3 + ("predict", "among", "recall", "evaluate", "forget", "keep")))
        refused += told((fields, done), lambda: is_refused(act, rng))
    return 1 + len(done), refused


def learners(count: int, seed: int) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        found = [one_learner(rng, Path(place) / f"{i}") for i in range(count)]
    actions, refused = (sum(column) for column in zip(*found, strict=True))
    assert refused < MOST_REFUSED * actions
    return f"{count} learners, {actions} actions, {refused} refused"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--learners", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for count, tried in ((options.runs, runs), (options.learners, learners)):
        started = time.monotonic()
        print(f"{tried(count, options.seed)}, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
