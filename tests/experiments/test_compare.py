import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfcsr
from tfcsr.engines import local as module
from tfcsr.engines import pool
from tfcsr.errors import SpecError, TfcsrError
from tfcsr.experiments.compare import summarise
from tfcsr.experiments.result import Result

QUICK = {"device": "cpu", "epochs": 1, "workers": 1}


def result(method: str, seed: int, accuracy: float, **changes: object) -> Result:
    values = dict.fromkeys(Result.__dataclass_fields__)
    values |= {"final_accuracy": accuracy, "replay_batches": 10, "memory_checks": 2, "seconds": 1.5, "forgetting": 4.0}
    values |= {"optimizer_steps": 20, "samples_seen": 640}
    return Result(**(values | {"spec": {"method": method, "seed": seed}} | changes))


def test_the_summary_is_right():
    results = [result("er", s, a) for s, a in enumerate((80, 82, 84))]
    results += [result("mgp", s, a, collapsed=c) for s, a, c in ((0, 81, None), (1, 83, 4), (2, 85, None))]
    comparison = summarise("tiny", "er", results, {"mgp-seed7-abc": "it died"})
    mgp, er = comparison.methods
    assert (mgp.method, mgp.n, mgp.collapsed, mgp.failed) == ("mgp", 3, 1, 1)
    assert (mgp.final_accuracy.mean, mgp.difference.mean, mgp.difference.half_width) == (83.0, 1.0, 0.0)
    assert er.difference is None
    assert (er.replay_batches, er.memory_checks, er.seconds, er.forgetting.mean) == (10, 2, 1.5, 4.0)
    assert (er.optimizer_steps, er.samples_seen) == (20, 640)


def test_a_grid_in_this_process(tmp_path):
    seen = []
    comparison = tfcsr.compare(
        benchmark="tiny",
        methods=["er", "tfcsr"],
        seeds=[3, 5],
        out=tmp_path,
        watcher=lambda spec, news: seen.append((spec.method, spec.seed, type(news))),
        **QUICK,
    )
    assert [summary.n for summary in comparison.methods] == [2, 2]
    tf = next(summary for summary in comparison.methods if summary.method == "tfcsr")
    assert (tf.difference.mean, tf.difference.n, tf.difference.half_width) == (0.0, 2, None)
    kept = json.loads((tmp_path / "comparison.json").read_text())
    assert kept["baseline"] == "er"
    assert {(run["method"], run["seed"]) for run in kept["runs"]} == {(m, s) for m in ("er", "tfcsr") for s in (3, 5)}
    assert all((tmp_path / run["run"] / "result.json").exists() for run in kept["runs"])
    assert [entry for entry in seen if entry[2] is Result] == [(m, s, Result) for s in (3, 5) for m in ("er", "tfcsr")]


def test_complete_runs_are_skipped_and_more_seeds_added(tmp_path):
    def ran():
        events = []
        tfcsr.compare(
            benchmark="tiny",
            methods="er",
            seeds=len(events_per_call) + 1,
            out=tmp_path,
            watcher=lambda spec, news: events.append(spec.seed) if isinstance(news, dict) else None,
            **QUICK,
        )
        events_per_call.append(set(events))
        return events_per_call[-1]

    events_per_call: list[set[int]] = []
    assert ran() == {0}
    assert ran() == {1}
    assert ran() == {2}


def test_a_grid_in_processes_gives_the_same_bits(tmp_path):
    settings = {"benchmark": "split-digits", "methods": ["er", "ewc"], "seeds": 2, "max_per_class": 20, **QUICK}
    alone = tfcsr.compare(**settings)
    together = tfcsr.compare(**settings | {"workers": 2}, out=tmp_path)
    assert [r.weights_sha256 for r in alone.results] == [r.weights_sha256 for r in together.results]
    assert {r.spec["threads"] for r in together.results} == {1}


def test_a_killed_process_costs_only_its_run(monkeypatch):
    workers, killed = [], []

    class Watched(pool.Worker):
        def __init__(self, threads, plugins):
            super().__init__(threads, plugins)
            workers.append(self)

    monkeypatch.setattr(pool, "Worker", Watched)

    def watcher(spec, news):
        if spec.seed == 0 and not killed:
            killed.append(spec)
            for worker in workers:
                worker.process.send_signal(signal.SIGKILL)

    comparison = tfcsr.compare(
        methods="finetune", seeds=5, max_per_class=20, workers=2, watcher=watcher, device="cpu", epochs=2
    )
    assert 1 <= len(comparison.errors) <= 2
    assert "ended with code -9" in next(iter(comparison.errors.values()))
    assert len(comparison.results) + len(comparison.errors) == 5


def test_ctrl_c_ends_the_workers(monkeypatch):
    workers = []

    class Watched(pool.Worker):
        def __init__(self, threads, plugins):
            super().__init__(threads, plugins)
            workers.append(self)

    monkeypatch.setattr(pool, "Worker", Watched)
    monkeypatch.setattr(
        pool.threading.Thread,
        "join",
        lambda thread, timeout=None: time.sleep(0.5) or signal.raise_signal(signal.SIGINT),
    )
    with pytest.raises(KeyboardInterrupt):
        tfcsr.compare(methods="joint", seeds=4, workers=2, device="cpu", epochs=1000)
    assert len(workers) == 2
    assert not any(worker.is_alive() for worker in workers)


def test_failed_runs_are_said_and_the_others_kept(tmp_path, monkeypatch):
    advance = module.advance

    def fragile(spec, *more):
        if spec.method == "mgp":
            raise TfcsrError("no luck")
        return (yield from advance(spec, *more))

    monkeypatch.setattr(module, "advance", fragile)
    comparison = tfcsr.compare(benchmark="tiny", methods=["er", "mgp"], seeds=1, out=tmp_path, **QUICK)
    assert [summary.method for summary in comparison.methods] == ["er"]
    assert list(comparison.errors.values()) == ["no luck"]
    with pytest.raises(TfcsrError, match="no luck"):
        tfcsr.compare(benchmark="tiny", methods=["mgp"], seeds=1, **QUICK)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"methods": []}, "at least one"),
        ({"methods": ["er", "er"]}, "each once"),
        ({"methods": ["er", "nope"]}, "unknown method 'nope'"),
        ({"seeds": 0}, "at least one"),
        ({"seeds": [1, 1]}, "each once"),
        ({"seeds": [-1]}, "seed -1"),
        ({"baseline": "joint", "methods": ["er"]}, "'joint' is not among"),
        ({"workers": -1}, "workers -1"),
        ({"epoch": 3}, "did you mean epochs"),
    ],
)
def test_bad_grids_are_refused_before_anything_runs(tmp_path, bad, message):
    with pytest.raises(SpecError, match=message):
        tfcsr.compare(**({"benchmark": "tiny", "out": tmp_path / "grid"} | bad))
    assert not (tmp_path / "grid").exists()


def test_a_script_without_a_main_guard_can_compare(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import tfcsr\n"
        "c = tfcsr.compare(methods=['er', 'finetune'], seeds=1, epochs=1, max_per_class=20, workers=2, device='cpu')\n"
        "print(len(c.results))\n"
    )
    path = str(Path(tfcsr.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


def test_a_second_comparison_in_a_folder_leaves_the_first_alone(tmp_path):
    quick = {"benchmark": "tiny", "epochs": 1, "threads": 1, "device": "cpu", "workers": 1, "out": tmp_path}
    tfcsr.compare(methods=["er", "finetune"], seeds=1, **quick)
    first = (tmp_path / "comparison.json").read_bytes()
    tfcsr.compare(methods=["er", "joint"], seeds=2, **quick)
    assert (tmp_path / "comparison.json").read_bytes() == first
    assert len(json.loads((tmp_path / "comparison-2.json").read_text())["runs"]) == 4
    tfcsr.compare(methods=["er", "joint"], seeds=2, **quick)
    assert {path.name for path in tmp_path.glob("*.json")} == {"comparison.json", "comparison-2.json"}


def test_equal_steps_are_those_of_plain_training():
    quick = {"benchmark": "tiny", "epochs": 2, "threads": 1, "device": "cpu", "workers": 1, "seeds": 1}
    methods = ["finetune", "er", "er-ace", "joint", "tfcsr-distill"]
    usual = {m.method: m.optimizer_steps for m in tfcsr.compare(methods=methods, **quick).methods}
    equal = {m.method: m.optimizer_steps for m in tfcsr.compare(methods=methods, equal_steps=True, **quick).methods}
    assert len(set(usual.values())) > 2
    assert set(equal.values()) == {usual["finetune"]}
    with pytest.raises(SpecError, match="equal_steps: mgp goes on when a task is mastered"):
        tfcsr.compare(methods=["mgp"], equal_steps=True, **quick)
    with pytest.raises(SpecError, match="equal_steps sets new_data: leave that out"):
        tfcsr.compare(methods=["er", "joint"], equal_steps=True, new_data="all", **quick)


def test_class_orders_vary_with_the_seed_and_not_with_the_method():
    quick = {
        "benchmark": "tiny",
        "epochs": 1,
        "threads": 1,
        "device": "cpu",
        "workers": 1,
        "methods": ["er", "finetune"],
    }
    found = tfcsr.compare(seeds=4, class_orders=2, **quick)
    orders = {(r.spec["method"], r.spec["seed"]): r.spec["class_order"] for r in found.results}
    assert orders == {(m, s): 42 + s % 2 for m in ("er", "finetune") for s in range(4)}
    assert found.class_orders == 2
    assert tfcsr.compare(seeds=2, **quick).class_orders == 1
    for wrong, why in ((0, "is below 1"), (2, "with a list of classes, use 1")):
        order = {"class_order": "5,4,3,2,1,0"} if wrong else {}
        with pytest.raises(SpecError, match=why):
            tfcsr.compare(seeds=2, class_orders=wrong, **order, **quick)
