"""Runs that differ in what a process can only be one way; watchers that raise; parts of one's own that do not fit."""

import faulthandler
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tfcsr
from tests.conftest import make_spec
from tfcsr import plugins
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.data.dataset import Dataset
from tfcsr.errors import DataError, SpecError, TfcsrError
from tfcsr.experiments.compare import execute
from tfcsr.experiments.result import Result
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.models import MODELS


@pytest.fixture
def counts_threads():
    importlib.reload(importlib.import_module("tests.experiments.counts_threads"))
    yield
    METHODS.remove("counts-threads")


@pytest.fixture(autouse=True)
def no_endless_waiting():
    """Whoever waits for ever ends the test run, with a traceback."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def counted(specs, workers):
    seen = {}

    def watcher(spec, news):
        if isinstance(news, dict) and news["event"] == "threads":
            seen.setdefault((spec.threads, spec.seed), set()).add(news["number"])

    outcome = execute(specs, workers, watcher)
    assert [(result.spec["threads"], result.spec["seed"]) for result in outcome] == [(s.threads, s.seed) for s in specs]
    return seen


QUICK = {"epochs": 1, "max_per_class": 2, "tasks": 2}


def test_each_run_has_its_own_number_of_threads(counts_threads):
    specs = [make_spec(method="counts-threads", threads=n, seed=s, **QUICK) for s in (0, 1) for n in (1, 2)]
    assert counted(specs, workers=1) == {(n, s): {n} for n in (1, 2) for s in (0, 1)}
    assert torch.get_num_threads() == 1, "and afterwards it is as it was"


def test_each_run_has_its_own_number_of_threads_in_processes(counts_threads):
    specs = [make_spec(method="counts-threads", threads=n, seed=s, **QUICK) for n, s in ((2, 0), (1, 0), (2, 1))]
    assert counted(specs, workers=2) == {(2, 0): {2}, (1, 0): {1}, (2, 1): {2}}


class Mine(Exception):
    """Nobody's but the watcher's."""


def raising(when):
    def watcher(spec, news):
        calls.append(news)
        if when(news):
            raise error

    calls, error = [], Mine("enough")
    return watcher, calls, error


@pytest.mark.parametrize(("kind", "workers"), [("event", 1), ("result", 1), ("event", 2)])
def test_a_watcher_that_raises_ends_the_comparison(tmp_path, workers, kind):
    watcher, calls, error = raising(lambda news: isinstance(news, dict if kind == "event" else Result))
    with pytest.raises(Mine) as caught:
        tfcsr.compare(
            benchmark="tiny",
            methods=["er", "finetune"],
            seeds=2,
            epochs=1,
            device="cpu",
            workers=workers,
            watcher=watcher,
            out=tmp_path,
        )
    assert caught.value is error
    told = len(calls)
    assert sum(isinstance(news, Result) for news in calls) <= 1
    time.sleep(0.2)
    assert len(calls) == told, "nobody is told of anything any more"


def test_a_watcher_that_raises_for_a_complete_run_ends_the_comparison(tmp_path):
    fields = {"benchmark": "tiny", "methods": ["er"], "seeds": 1, "epochs": 1, "device": "cpu", "out": tmp_path}
    tfcsr.compare(**fields)
    watcher, calls, error = raising(lambda news: True)
    with pytest.raises(Mine) as caught:
        tfcsr.compare(**fields, watcher=watcher)
    assert (caught.value, len(calls)) == (error, 1)


def test_a_comparison_goes_on_after_a_watcher_that_raised(tmp_path):
    fields = {"benchmark": "tiny", "methods": ["er"], "seeds": 2, "epochs": 1, "device": "cpu", "out": tmp_path}
    watcher, _, _ = raising(lambda news: isinstance(news, Result))
    with pytest.raises(Mine):
        tfcsr.compare(**fields, workers=1, watcher=watcher)
    assert len(tfcsr.compare(**fields, workers=1).results) == 2


BENCH = """
import numpy as np
from tfcsr import BENCHMARKS, Benchmark, Dataset


def load(data_dir):
    y = np.arange(80) % 4
    x = np.random.default_rng(0).integers(0, 100, (80, 1, 8, 8), dtype=np.uint8)
    x[np.arange(80), 0, y, :] += 120
    return Dataset("bright", x[:40], y[:40], x[40:], y[40:], tuple("abcd"), 255.0, (0.3,), (0.2,))


DEFAULTS = {"epochs": 2, "batch_size": 8, "buffer_capacity": 8}
BENCHMARKS.add("mixed-bench")(Benchmark(load=load, classes=4, tasks=2, defaults=DEFAULTS))
"""


def test_a_folder_with_a_run_on_a_benchmark_of_ones_own_is_resumed(tmp_path, monkeypatch):
    plugin = tmp_path / "bench.py"
    plugin.write_text(BENCH)
    monkeypatch.setattr(sys, "path", list(sys.path))
    plugins.load(str(plugin))
    try:
        stop = Stop()
        fields = {"benchmark": "mixed-bench", "device": "cpu", "threads": 1, "precision": "fp32", "checkpoint_every": 1}
        spec = tfcsr.RunSpec(method="er", **fields, out=str(tmp_path / "runs" / "one"))
        with pytest.raises(Interrupted):
            tfcsr.run(spec, [lambda event: stop.request() if event["event"] == "epoch_finished" else None], stop)
        whole = tfcsr.run(spec.replace(out=None))
    finally:
        BENCHMARKS.remove("mixed-bench")
    command = [sys.executable, "-m", "tfcsr", "resume", "--plugin", str(plugin), str(tmp_path / "runs")]
    env = os.environ | {"PYTHONPATH": str(Path(tfcsr.__file__).parents[1]), "COLUMNS": "200"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "1 run in" in ended.stdout
    assert json.loads((tmp_path / "runs" / "one" / "result.json").read_text())["weights_sha256"] == whole.weights_sha256


def dataset(classes=4, size=4):
    y = np.arange(40) % classes
    x = np.random.default_rng(0).integers(0, 255, (40, 1, size, size), dtype=np.uint8)
    return Dataset("small", x, y, x, y, tuple("abcdefgh"[:classes]), 255.0, (0.5,), (0.3,))


@pytest.fixture
def added():
    names = []

    def add(registry, name, entry):
        names.append((registry, name))
        registry.add(name)(entry)

    yield add
    for registry, name in names:
        registry.remove(name)


def refused(kind, **fields):
    """The one line that is said, alone and in a comparison; nothing is left behind."""
    spec = make_spec(**{"model": "tiny-linear", "method": "er", "epochs": 1} | fields)
    with pytest.raises(TfcsrError) as caught:
        tfcsr.run(spec)
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    own = {name: value for name, value in fields.items() if name not in ("method",)}
    with pytest.raises(TfcsrError) as caught:
        tfcsr.compare(**{"model": "tiny-linear"} | own, methods=["er"], seeds=1, epochs=1, device="cpu", workers=1)
    assert str(caught.value) == text
    return text


def test_a_benchmark_that_says_more_classes_than_its_data_has(added):
    added(BENCHMARKS, "five", Benchmark(load=lambda data_dir: dataset(4), classes=5, tasks=2))
    said = refused(DataError, benchmark="five")
    assert said == "dataset small has 4 classes, its benchmark says 5: make the two agree"


def test_a_benchmark_that_says_fewer_classes_than_its_data_has(added):
    added(BENCHMARKS, "three", Benchmark(load=lambda data_dir: dataset(4), classes=3, tasks=2))
    assert "has 4 classes, its benchmark says 3" in refused(DataError, benchmark="three")


def test_images_of_one_pixel_cannot_be_shifted(added):
    added(BENCHMARKS, "dots", Benchmark(load=lambda data_dir: dataset(size=1), classes=4, tasks=2))
    said = refused(SpecError, benchmark="dots", augment="crop-flip")
    assert "crop-flip" in said
    assert "1x1" in said
    assert tfcsr.run(make_spec(benchmark="dots", model="tiny-linear", method="er", epochs=1)).final_accuracy >= 0


class Odd(nn.Module):
    def __init__(self, shape, classes, wrap):
        super().__init__()
        self.linear = nn.Linear(shape[0] * shape[1] * shape[2], classes)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.linear(x.flatten(1)))


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (lambda y: {"logits": y}, ("a dict", "it must give logits")),
        (lambda y: (y, y), ("a tuple", "it must give logits")),
        (lambda y: y[:, 0], ("a tensor of", "it must give logits")),
        (lambda y: y[:-1], ("a tensor of", "it must give logits")),
        (lambda y: y.detach().numpy(), ("a ndarray", "it must give logits")),
    ],
    ids=["dict", "tuple", "one score", "one example less", "array"],
)
def test_a_model_that_gives_something_else_than_logits(added, wrap, words):
    added(MODELS, "odd", lambda shape, classes: Odd(shape, classes, wrap))
    said = refused(SpecError, benchmark="tiny", model="odd")
    assert all(word in said for word in words), said


@pytest.mark.parametrize("more", [-1, 1, 4])
def test_a_model_with_another_number_of_scores_than_there_are_classes(added, more):
    added(MODELS, "odd", lambda shape, classes: Odd(shape, classes + more, lambda y: y))
    said = refused(SpecError, benchmark="tiny", model="odd")
    assert "model odd" in said
    assert str(6 + more) in said
    assert "6" in said


def test_a_model_that_is_none(added):
    added(MODELS, "odd", lambda shape, classes: None)
    assert "odd" in refused(SpecError, benchmark="tiny", model="odd")


def test_a_benchmark_that_loads_no_dataset(added):
    added(BENCHMARKS, "nothing", Benchmark(load=lambda data_dir: None, classes=4, tasks=2))
    assert "Dataset" in refused(DataError, benchmark="nothing")


@pytest.mark.parametrize(
    ("given", "what"), [(lambda logits: None, "a NoneType"), (lambda logits: logits[:, 0], r"a tensor of \(\d+,\)")]
)
def test_a_loss_that_is_no_number_is_one_line(given, what):
    METHODS.add("lossless")(type("Lossless", (Method,), {"loss": lambda self, batch, logits: given(logits)}))
    try:
        with pytest.raises(SpecError, match=f"the loss of lossless is {what}: it must be one number"):
            tfcsr.run(make_spec(method="lossless", **QUICK))
    finally:
        METHODS.remove("lossless")


def test_a_rise_longer_than_the_task_is_one_line():
    with pytest.raises(SpecError, match=r"warmup_epochs 5 is more than a task's epochs \(1\): the rate"):
        tfcsr.run(make_spec(method="er", warmup_epochs=5, **QUICK))
