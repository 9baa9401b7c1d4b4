"""This machine: one GPU in this process, several in a process each. There are none here: they are pretended."""

import pytest
import torch

import tfcsr
from tests.conftest import make_spec
from tests.experiments.conftest import essence
from tfcsr.engines import local
from tfcsr.engines.local import Local, shares
from tfcsr.engines.pool import run_in_processes
from tfcsr.errors import SpecError, TfcsrError, TfcsrWarning
from tfcsr.experiments.machine import gpus
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.stop import Stop


@pytest.mark.parametrize(
    ("count", "visible", "found"),
    [
        (0, None, []),
        (2, None, ["0", "1"]),
        (2, "", ["0", "1"]),
        (2, "5, 3", ["5", "3"]),
        (1, "GPU-1a,GPU-2b", ["GPU-1a"]),  # the other one is not there
    ],
)
def test_gpus_are_known_by_the_names_that_the_environment_gives_them(monkeypatch, count, visible, found):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus() == found


def test_a_number_of_runs_is_shared_out():
    assert shares(["a", "b", "c"], 0) == [("a", 0), ("b", 0), ("c", 0)]
    assert shares(["a", "b", "c"], 7) == [("a", 3), ("b", 2), ("c", 2)]
    assert shares(["a", "b", "c"], 2) == [("a", 1), ("b", 1)]


@pytest.fixture
def cards(monkeypatch, threads):
    """Two GPUs, whose workers have to make do with the CPU."""
    tell, threads.devices = threads.tell, []

    def on_cpu(self, order):
        threads.devices += [order["spec"]["device"]] if order else []
        tell(self, order and order | {"spec": order["spec"] | {"device": "cpu"}})

    monkeypatch.setattr(threads, "tell", on_cpu)
    monkeypatch.setattr(local, "gpus", lambda: ["4", "7"])
    monkeypatch.setattr(local, "needed_plugins", lambda specs: (list(specs) and ["mine"], ""))
    return threads


def executed(specs, workers=0):
    news = {}
    engine = Local(workers)
    engine.prepare(specs)
    engine.run(specs, lambda spec, update: news.__setitem__(spec, update), Stop(), Origins())
    return [news[spec] for spec in specs]


@pytest.mark.parametrize(("workers", "each"), [(0, [0, 0]), (3, [1, 2])])
def test_each_gpu_has_a_process_that_packs_it(cards, workers, each):
    specs = [make_spec(method="er", epochs=1, seed=seed, device="cuda") for seed in range(6)]
    found = executed(specs, workers)
    here = [tfcsr.run(spec.replace(device="cpu")) for spec in specs]
    assert [essence(result) for result in found] == [essence(result) for result in here]
    assert {worker.env["CUDA_VISIBLE_DEVICES"] for worker in cards.made} == {"4", "7"}
    assert sorted(worker.at_once for worker in cards.made) == each
    # Each sees one card, and the spec names none: a result does not tell on which of them it was made.
    assert set(cards.devices) == {"cuda"}
    assert sorted(order["run"] for worker in cards.made for order in worker.told) == list(range(6))


@pytest.mark.parametrize(
    ("device", "runs", "workers", "names"),
    [("cuda:1", 3, 0, ["4", "7"]), ("cuda", 1, 0, ["4", "7"]), ("cuda", 3, 1, ["4", "7"]), ("cuda", 3, 0, ["4"])],
)
def test_where_one_gpu_will_do_it_is_this_process(cards, monkeypatch, device, runs, workers, names):
    monkeypatch.setattr(local, "gpus", lambda: names)
    here = []

    def together(specs, begin, callback, at_once):
        here.extend(specs)
        for i in range(len(specs)):
            callback(i, TfcsrError("not really"))

    monkeypatch.setattr(local, "run_together", together)
    executed([make_spec(method="er", seed=seed, device=device) for seed in range(runs)], workers)
    assert len(here) == runs
    assert not cards.made


def test_what_processes_cannot_import_stays_in_this_one(monkeypatch):
    monkeypatch.setattr(local, "needed_plugins", lambda specs: ([], "method 'mine' is defined in __main__"))
    specs = [make_spec(method="er", epochs=1, seed=seed) for seed in range(2)]
    with pytest.warns(TfcsrWarning, match="one after another in this process: method 'mine'"):
        found = executed(specs, workers=2)
    assert all(isinstance(result, tfcsr.Result) for result in found)


def test_a_worker_that_cannot_begin_fails_its_runs_and_does_not_hang(threads, monkeypatch):
    def refuse(self):
        raise SpecError("plugin x cannot be imported")

    monkeypatch.setattr(threads, "begin", refuse)
    specs = [make_spec(method="er", seed=seed) for seed in range(3)]
    news = []
    run_in_processes(specs, 2, lambda i, update: news.append((i, str(update))), Stop())
    assert sorted(news) == [(i, "plugin x cannot be imported") for i in range(3)]


def test_a_killed_gpu_process_costs_the_runs_it_had_and_another_goes_on(cards):
    killed = []

    def watcher(spec, update):
        if isinstance(update, dict) and not killed:
            killed.append(spec)
            next(w for w in cards.made if spec.seed in [order["spec"]["seed"] for order in w.told]).kill()
        elif not isinstance(update, dict):
            ended.append(update)

    ended = []
    specs = [make_spec(method="er", epochs=1, seed=seed, device="cuda") for seed in range(8)]
    engine = Local(4)
    engine.prepare(specs)
    engine.run(specs, watcher, Stop(), Origins())
    failed = [update for update in ended if isinstance(update, TfcsrError)]
    assert len(ended) == 8
    assert 1 <= len(failed) <= 2
    assert all("ended with code -9" in str(error) for error in failed)
