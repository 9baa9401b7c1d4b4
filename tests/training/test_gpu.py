"""What only a GPU can show. Run there with `pytest -m gpu`."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
from tests.conftest import make_spec, make_training, striped_dataset

import tfcsr
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.experiments.machine import settings
from tfcsr.experiments.stop import Interrupted, Stop
from tfcsr.files import read_json
from tfcsr.methods import METHODS
from tfcsr.methods.consolidation import Consolidation
from tfcsr.models import MODELS
from tfcsr.training import loop
from tfcsr.training.model_file import read_model
from tfcsr.training.step import CapturedSteps, PlainSteps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: torch.cuda.is_available() is false"),
]

BENCHMARKS.add("gpu-sized")(
    Benchmark(
        load=lambda data_dir: striped_dataset(classes=6, train=200, test=20, size=16),
        classes=6,
        tasks=3,
        defaults={"epochs": 4, "buffer_capacity": 120},
    )
)
SETTINGS = {"benchmark": "gpu-sized", "device": "cuda", "augment": "crop-flip"}


def final(listeners=(), stop=None, **fields):
    return tfcsr.run(make_spec(**{"precision": "auto"} | SETTINGS | fields), listeners, stop)


OURS = [name for name in METHODS.names() if METHODS.ships(name)]
CASES = [(method, {}) for method in OURS] + [
    ("er", {"model": "dropping"}),
    ("derpp", {"model": "dropping"}),
    ("er", {"lr_schedule": "cosine", "warmup_epochs": 1.0}),
    ("derpp", {"optimizer": "adamw", "weight_decay": 0.01, "lr_schedule": "cosine"}),
    ("er", {"optimizer": "sgd", "lr_schedule": "cosine", "warmup_epochs": 0.5}),
    ("icarl", {"optimizer": "sgd"}),
]


@MODELS.add("dropping")
def dropping(shape, classes):
    layers = MODELS.get("cnn")(shape, classes)
    return torch.nn.Sequential(*layers[:-1], torch.nn.Dropout(0.5), layers[-1])


@pytest.mark.parametrize(("method", "more"), CASES, ids=str)
def test_captured_and_plain_steps_agree(method, more):
    """Over some hundred fp32 steps, odd batches, penalties, probes, dropout and a rate that varies included."""
    fields = SETTINGS | {"method": method, "precision": "fp32", "epochs": 8, "max_epochs": 6, "lr": 1e-4} | more
    with settings(make_spec(**fields, deterministic=True)):
        plain = make_training(**fields)
        plain.steps = PlainSteps(plain.steps.step)
        plain.run()
        captured = make_training(**fields)
        assert isinstance(captured.steps, CapturedSteps)
        with torch.cuda.stream(torch.cuda.Stream()):
            captured.run()
    assert any(program.replay is not None for program in captured.steps.programs.values())
    assert captured.optimizer_steps == plain.optimizer_steps >= 60
    for a, b in zip(plain.model.parameters(), captured.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


# torch's own: when it loads its compiler, and when that asks what a loss is given for its gradient.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")
@pytest.mark.parametrize("method", ["er", "tfcsr-distill"])
def test_compiled_and_plain_steps_agree(method, monkeypatch):
    """What a long run does, in a short one: the network, the batch and a loss of many operations are programs."""
    fields = SETTINGS | {"method": method, "precision": "fp32", "model": "cnn", "epochs": 4, "lr": 1e-4}
    with settings(make_spec(**fields, deterministic=True)):
        plain = make_training(**fields)
        plain.steps = PlainSteps(plain.steps.step)
        plain.run()
        monkeypatch.setattr(loop, "COMPILE_FROM_STEPS", 0)
        compiled = make_training(**fields)
        assert compiled.steps.step.compiled
        with torch.cuda.stream(torch.cuda.Stream()):
            compiled.run()
    for a, b in zip(plain.model.parameters(), compiled.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("model", ["cnn", "resnet18", "dropping"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_deterministic_runs_repeat_and_a_probe_changes_nothing(model, precision):
    fields = {"model": model, "precision": precision, "deterministic": True, "epochs": 3}
    er = final(method="er", **fields)
    assert final(method="er", **fields).weights_sha256 == er.weights_sha256
    assert final(method="tfcsr", **fields).weights_sha256 == er.weights_sha256


@pytest.mark.parametrize("model", ["cnn", "resnet18"])
def test_a_deterministic_run_beside_others_equals_the_same_run_alone(model):
    fields = SETTINGS | {"model": model, "deterministic": True, "epochs": 3}
    methods = ["er", "ewc", "si", "finetune"]
    together = tfcsr.compare(methods=methods, seeds=2, workers=8, **fields)
    for result in together.results:
        alone = final(method=result.spec["method"], seed=result.spec["seed"], model=model, deterministic=True, epochs=3)
        assert alone.weights_sha256 == result.weights_sha256


@pytest.mark.parametrize("method", [method for method in OURS if method not in ("finetune", "joint")])
def test_a_stopped_run_goes_on_to_the_same_bits(method, tmp_path):
    fields = {"method": method, "deterministic": True, "checkpoint_every": 1, "model": "dropping"}
    fields |= {"max_epochs": 4} if method == "mgp" else {"lr_schedule": "cosine"}
    whole = final(**fields)
    stop = Stop()

    def in_the_second_task(event):
        if event["event"] == "epoch_finished" and event["task"] == 2 and event["epoch"] == 2:
            stop.request()

    with pytest.raises(Interrupted):
        tfcsr.run(
            make_spec(**{"precision": "auto"} | SETTINGS | fields, out=str(tmp_path / "run")),
            [in_the_second_task],
            stop,
        )
    assert tfcsr.resume(tmp_path / "run").weights_sha256 == whole.weights_sha256


@pytest.mark.parametrize("method", ["er", "derpp", "icarl", "tfcsr-distill"])
def test_a_memory_on_disk_is_the_one_on_the_gpu(method):
    fields = SETTINGS | {"method": method, "precision": "fp32", "deterministic": True, "exam_share": 0.2}
    with settings(make_spec(**fields)):
        ours = make_training(**fields)
        ours.steps = PlainSteps(ours.steps.step)  # from disk, steps are not recorded
        ours.run()
        disk = make_training(**fields, buffer_on="disk")
        disk.run()
    assert disk.weights_sha256() == ours.weights_sha256()
    assert disk.learner.probes == ours.learner.probes
    assert disk.accuracy_matrix == ours.accuracy_matrix


@pytest.mark.parametrize("method", ["er", "tfcsr-distill"])
def test_two_processes_with_a_gpu_each_train_as_one(method, tmp_path):
    """Two machines, as far as NCCL is told: they share the one card there is, and talk as over a network."""
    common = ["--benchmark", "split-digits", "--method", method, "--epochs", "3", "--deterministic"]
    command = [sys.executable, "-m", "tfcsr", "run", *common, "--precision", "fp32", "--device", "cuda", "--out"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*command, str(tmp_path / "one")], env=env, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    meeting |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NCCL_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen(
            [*command, str(tmp_path / "two")],
            env=env | meeting | {"RANK": str(rank), "NCCL_HOSTID": f"machine-{rank}"},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=240)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    one, two = (read_json(tmp_path / name / "result.json") for name in ("one", "two"))
    assert two["spec"]["processes"] == 2
    assert two["optimizer_steps"] == one["optimizer_steps"]
    assert two["final_accuracy"] == pytest.approx(one["final_accuracy"], abs=2)
    mine, theirs = (read_model(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, weight in mine.weights.items():
        torch.testing.assert_close(theirs.weights[name], weight, rtol=1e-3, atol=1e-4)
    assert torch.equal(theirs.beside["buffer"]["y"], mine.beside["buffer"]["y"])


def test_a_grid_asked_to_stop_ends_in_order_and_goes_on(tmp_path):
    """Runs on streams of their own are taken apart while the card is at work on them."""
    words = [
        "--methods",
        "er,ewc,si",
        "--seeds",
        "2",
        "--epochs",
        "30",
        "--checkpoint-every",
        "1",
        "--device",
        "cuda",
        "--out",
    ]
    command = [sys.executable, "-X", "faulthandler", "-m", "tfcsr", "compare", *words, str(tmp_path)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def epochs_kept():
        return sum(int(path.stem) for path in tmp_path.glob("*/checkpoint/*.json"))

    for _ in range(3):
        before = epochs_kept()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env, text=True)
        for _ in range(600):
            time.sleep(0.1)
            if process.poll() is not None or epochs_kept() > before + 100:
                break
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 143, said
        assert said.count("\n") <= 1, said
    assert subprocess.run(command, stdout=subprocess.DEVNULL, env=env, check=False).returncode == 0


def test_recorded_steps_count_what_is_known_of_the_new(monkeypatch):
    found = []
    ends = Consolidation.end_epoch

    def end_epoch(self, task, epoch):
        found.append((task.number, epoch, int(self.asked), int(self.right)))
        return ends(self, task, epoch)

    monkeypatch.setattr(Consolidation, "end_epoch", end_epoch)
    result = final(method="tfcsr-distill", augment="none", epochs=8, consolidate_at=1e-6, replay_least=0)
    assert [(task, epoch) for task, epoch, *_ in found] == [(t, e) for t in (1, 2, 3) for e in range(1, 9)]
    assert {asked for _, _, asked, _ in found} == {400}
    assert all(0 < right <= 400 for *_, right in found)
    assert found[7][3] > found[0][3]
    # 400 images, 32 new ones in a batch: every epoch after the first task replays.
    assert result.replay_batches == 2 * 8 * 13


def test_the_gpus_own_generator_is_neither_used_nor_moved():
    torch.cuda.manual_seed(7)
    before = torch.cuda.get_rng_state()
    one = final(method="er", model="dropping", deterministic=True)
    assert torch.equal(before, torch.cuda.get_rng_state())
    torch.cuda.manual_seed(8)
    assert final(method="er", model="dropping", deterministic=True).weights_sha256 == one.weights_sha256


def test_precisions_are_recorded():
    assert final(method="er", epochs=1).spec["precision"] == "bf16"
    assert final(method="er", epochs=1, precision="tf32").spec["precision"] == "tf32"


def test_every_method_learns_on_the_gpu():
    for method in METHODS.names():
        if METHODS.ships(method):
            result = final(method=method, epochs=6, augment="none")
            assert result.accuracy_matrix[0][0] > 80, method


def test_the_grid_goes_on_with_fewer_runs_when_memory_ends():
    gc.collect()
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_reserved() + 1.5e9
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(0).total_memory)
    try:
        said = []
        comparison = tfcsr.compare(
            methods=["er"],
            seeds=6,
            workers=6,
            model="resnet18",
            batch_size=256,
            epochs=2,
            **{**SETTINGS, "augment": "none"},
            watcher=lambda spec, news: (
                said.append(news) if isinstance(news, dict) and news["event"] == "out_of_memory" else None
            ),
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert said
    assert len(comparison.results) == 6
