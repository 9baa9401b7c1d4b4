"""The benchmarks are no timed tests, but they have to go on working: each once, as small as it can be."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import cpu, measure

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.methods import METHODS
from tfcsr.spec import RunSpec

ROOT = Path(__file__).parents[1]


def test_growth_measures_every_method(tmp_path, monkeypatch, capsys):
    from benchmarks import growth

    for name, value in {"STEPS": 2, "EARLY": 2, "EXAMPLES": 20_000, "BYTES": 1 << 20}.items():
        monkeypatch.setattr(growth, name, value)
    file = tmp_path / "growth.json"
    monkeypatch.setattr(sys, "argv", ["growth", "--tasks", "4", "--repetitions", "1", "--json", str(file)])
    try:
        growth.main()
    finally:
        BENCHMARKS.remove("many-tasks")
    rows = {row["what"]: row["median"] for row in json.loads(file.read_text())["rows"]}
    for method in filter(METHODS.ships, METHODS.names()):
        assert rows[f"{method}: step at task 4 / at task 2"] > 0
    assert rows["buffer bytes / (capacity x bytes an example), 1000"] == pytest.approx(1, abs=0.01)
    assert "256 examples for a probe" in capsys.readouterr().out


def test_a_run_is_measured_beside_bare_loops(monkeypatch):
    monkeypatch.setattr(cpu, "STEPS", 8)
    rows = {row["what"]: row for row in cpu.one_run(1, 2)}
    assert rows["bare loop / tfcsr, 1 thread"]["n"] == 2
    assert rows["tfcsr, 1 thread: ms a step"]["low"] > 0


def test_two_processes_are_measured_beside_one():
    from benchmarks import processes

    assert processes.run("mlp", 64, 2, processes=2, threads=1) > 0


def test_instalments_are_measured(tmp_path, monkeypatch):
    from benchmarks import scale_instalments

    monkeypatch.chdir(tmp_path)
    scale_instalments.main(3)
    assert json.loads(Path("kept.json").read_text())["save ms"] > 0
    assert len(Path("kept/history/1.jsonl").read_text().splitlines()) >= 3


def test_a_process_is_measured_by_itself(monkeypatch):
    """Linux counts the memory of the process that starts another as that one's too."""
    from benchmarks import scale

    large = bytearray(400_000_000)
    large[::4096] = b"x" * len(large[::4096])
    found = scale._process("-c", "import json; print('ready'); print(json.dumps({'rows': 7}))")
    assert found["rows"] == 7
    assert 0 <= found["processor s"] < 5
    assert 0 < found["memory MB"] < 200
    with pytest.raises(SystemExit):
        scale._process("-c", "raise ValueError('in vain')")


def test_rows_of_one_kind_are_one_table():
    rows = [{"what": 1, "a": 1}, {"what": 2, "a": 1, "b": 2}, {"what": 3, "c": 1}, {"what": 4}, {"what": 5, "a": 1}]
    assert [[row["what"] for row in group] for group in measure._kinds(rows)] == [[1, 2], [3, 4], [5]]


def test_the_runs_that_a_gpu_is_to_be_measured_with_can_be_run(monkeypatch):
    """Nobody would know before there is a GPU."""
    from benchmarks import gpu

    wanted = []

    def several(count, *, compiled=True, **fields):
        wanted.append((compiled, RunSpec.from_dict({"benchmark": "random-cifar", **gpu.packed(0, **fields)}).method))
        return float(len(wanted))

    monkeypatch.setattr(gpu, "several", several)
    options = argparse.Namespace(epochs=4)
    assert len(gpu.packed_steps(options)) == 3
    rows = [row for part in ("methods", "methods-short") for row in gpu.PARTS[part](options)]
    turns = [(compiled, method) for compiled in (True, False) for _ in range(gpu.PACKED) for method in gpu.METHODS]
    assert wanted == [(True, "tfcsr")] * 3 + turns
    assert [row["n"] for row in rows] == [gpu.PACKED] * 6


def test_measurements_are_taken_in_turns():
    taken = []
    found = measure.interleaved({name: lambda name=name: taken.append(name) or len(taken) for name in "ab"}, 2)
    assert taken == ["a", "b", "a", "b"]
    assert measure.ratio(found["b"], found["a"])["median"] == pytest.approx((2 / 1 + 4 / 3) / 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["growth", "--tasks", "5"], "--tasks 5: must be 20 or more"),
        (["cpu", "--repetitions", "0"], "--repetitions 0: must be 1 or more"),
        (["cpu", "--json", "nowhere/cpu.json"], "there is no folder nowhere"),
        (["fashion", "--exam-shares", "0,abc"], "--exam-shares 0,abc: give numbers"),
        (["fashion", "--exam-shares", "0,nan"], "each must be from 0 to 0.9"),
        (["fashion", "--methods", "er,tfcsr-distil"], "unknown method 'tfcsr-distil'"),
        (["fashion", "--methods", "tfcsr-distill:new_classes=none"], "new_classes 'none'"),
        (["fashion", "--methods", "tfcsr-distill:model=nothing"], "nothing"),
        (["fashion", "--methods", "tfcsr-distill:"], "unknown spec field ''"),
        (["fashion", "--data", "nowhere"], "--data nowhere: no Fashion-MNIST there"),
        *(
            pytest.param([name], "no GPU", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here"))
            for name in ("gpu", "packing")
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{words[0]}").main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in said
    assert said.count("\n") == 1


def test_they_are_started_by_their_names():
    words = ["-m", "benchmarks.growth", "--repetitions", "0"]
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "benchmarks: --repetitions 0: must be 1 or more\n")


def test_data_that_does_not_fit_is_measured(tmp_path, monkeypatch):
    from benchmarks import memory

    monkeypatch.setattr(memory, "WARM_UP", 1)
    monkeypatch.setattr(memory, "SIDE", 16)
    memory.make(tmp_path, 60)
    for kind in ("few", "memory", "file"):
        found = memory.child(kind, tmp_path, 3, "cpu", "cnn")
        assert found["steps_per_second"] > 0
        assert found["resident"] > 1e8


def test_fashion_comes_in_three_instalments(tmp_path):
    import gzip

    import numpy as np
    from benchmarks import fashion

    from tfcsr.data.folders import classes_of

    for part in ("train", "t10k"):
        images = np.zeros((40, 28, 28), np.uint8).tobytes()
        labels = (np.arange(40) % 10).astype(np.uint8).tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + images))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + labels))
    fashion.lay_out(tmp_path, tmp_path / "out")
    counts = {part: len(list((tmp_path / "out" / part).rglob("*.png"))) for part in ("week1", "week2", "week3", "test")}
    assert counts == {"week1": 14, "week2": 14, "week3": 12, "test": 40}
    assert classes_of(tmp_path / "out" / "week3") == ("ankle-boot", "bag", "sneaker")
    found = fashion.accuracy(tmp_path / "out", "tfcsr", 0, 1, "cpu", 0.0)
    assert len(found["per_class"]) == len(found["recall_per_class"]) == 10
    judged = fashion.accuracy(tmp_path / "out", "tfcsr", 0, 1, "cpu", 0.5)
    assert 0 < judged["asked"] < found["asked"] == 40
    weighed = fashion.accuracy(tmp_path / "out", "tfcsr-distill:new_classes=balanced", 0, 1, "cpu", 0.0)
    assert weighed["method"] == "tfcsr-distill:new_classes=balanced"
    (one, other) = fashion.summary([found, judged])
    assert (one["mean"], other["exam_share"]) == (found["accuracy"], 0.5)
    assert other["recall - accuracy"]["mean"] == judged["recall"] - judged["accuracy"]
