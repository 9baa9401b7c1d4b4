import json
import os
from pathlib import Path

import pytest
import torch

import tfcsr
from tests.conftest import make_spec, trained
from tfcsr.errors import DeviceError, DivergedError, OutOfMemoryError, OutputError
from tfcsr.experiments.machine import cores, on_this_machine, settings
from tfcsr.metrics import forgetting
from tfcsr.spec import load_spec_file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "run"


def test_a_run_leaves_spec_events_and_result(out):
    spec = make_spec(method="tfcsr", out=str(out))
    result = tfcsr.run(spec)
    assert sorted(path.name for path in out.iterdir()) == [
        "events.jsonl",
        "model.safetensors",
        "result.json",
        "spec.json",
    ]
    assert tfcsr.RunSpec.read(load_spec_file(out / "spec.json")) == spec
    assert tfcsr.Result.from_dict(json.loads((out / "result.json").read_text())) == result
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "run_started"
    assert events[-1]["event"] == "run_finished"
    assert "step" not in {event["event"] for event in events}


def test_the_result_says_what_happened():
    training, result = trained(method="tfcsr"), tfcsr.run(make_spec(method="tfcsr"))
    assert result.weights_sha256 == training.weights_sha256()
    assert result.final_accuracy == result.accuracy_after_task[-1]
    assert len(result.accuracy_after_task) == len(result.accuracy_matrix) == 3
    assert result.forgetting == forgetting(result.accuracy_matrix)
    assert result.memory_checks == len(result.probes) > 0
    assert set(result.probes[0]) == {"task", "epoch", "recall", "passed", "next_epoch"}
    assert result.buffer_bytes == 24 * (16 + 8)
    assert result.optimizer_steps == result.replay_batches == 120
    assert result.samples_seen == 120 * 16
    assert result.epochs_per_task == [4, 4, 4]
    assert result.collapsed is None
    assert result.spec["protocol"] == "default"
    assert result.environment["torch"] == torch.__version__
    assert result.seconds > 0


def test_methods_without_a_buffer_pay_nothing_for_one():
    result = tfcsr.run(make_spec(method="finetune"))
    assert (result.buffer_bytes, result.replay_batches, result.memory_checks) == (0, 0, 0)


def test_a_complete_run_is_not_run_again(out):
    spec = make_spec(method="er", out=str(out))
    first = tfcsr.run(spec)
    before = (out / "result.json").stat()
    assert tfcsr.run(spec, [lambda event: pytest.fail("it ran")]) == first
    assert (out / "result.json").stat().st_mtime_ns == before.st_mtime_ns


def test_an_incomplete_run_starts_over(out):
    spec = make_spec(method="er", out=str(out))
    first = tfcsr.run(spec)
    (out / "result.json").unlink()
    assert tfcsr.run(spec).weights_sha256 == first.weights_sha256


def test_a_folder_with_another_spec_is_refused_and_kept(out):
    tfcsr.run(make_spec(method="er", out=str(out)))
    before = (out / "result.json").read_bytes()
    with pytest.raises(OutputError, match=r"another spec \(seed 0 there, 5 here\)"):
        tfcsr.run(make_spec(method="er", seed=5, out=str(out)))
    assert (out / "result.json").read_bytes() == before


def test_a_folder_with_other_things_is_refused(out):
    out.mkdir(parents=True)
    (out / "thesis.tex").write_text("")
    with pytest.raises(OutputError, match="holds no run"):
        tfcsr.run(make_spec(out=str(out)))
    with pytest.raises(OutputError, match="not a folder"):
        tfcsr.run(make_spec(out=str(out / "thesis.tex")))


@pytest.mark.parametrize("name", ["spec.json", "result.json"])
@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', "[" * 100_000])
def test_damaged_files_are_said_and_kept(out, name, content):
    spec = make_spec(method="er", epochs=1, out=str(out))
    tfcsr.run(spec)
    (out / name).write_text(content)
    with pytest.raises(OutputError) as caught:
        tfcsr.run(spec)
    assert str(out) in str(caught.value)
    assert (out / name).read_text() == content


def test_a_full_disk_is_one_line(out):
    spec = make_spec(method="er", epochs=1, out=str(out))
    tfcsr.run(spec)
    (out / "result.json").unlink()
    (out / "events.jsonl").unlink()
    (out / "events.jsonl").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot write .*events\.jsonl: No space left on device"):
        tfcsr.run(spec)
    assert not (out / "result.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        tfcsr.run(make_spec(out=str(tmp_path / "run")))


def test_a_place_that_cannot_be_written_is_one_line():
    with pytest.raises(OutputError, match="cannot write /proc/tfcsr"):
        tfcsr.run(make_spec(out="/proc/tfcsr/run"))


def test_a_diverged_run_keeps_its_events_and_has_no_result(out):
    with pytest.raises(DivergedError, match="step 1 "):
        tfcsr.run(make_spec(model="exploding", out=str(out)))
    assert not (out / "result.json").exists()
    assert json.loads((out / "events.jsonl").read_text().splitlines()[-1])["event"] == "failed"


def test_nothing_is_written_for_data_that_is_not_there(out, tmp_path):
    with pytest.raises(tfcsr.TfcsrError, match="mnist"):
        tfcsr.run(make_spec(benchmark="split-mnist", data_dir=str(tmp_path), out=str(out)))
    assert not out.exists()


@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_torchs_switches_are_as_they_were_afterwards(monkeypatch, mode):
    """On a GPU, which this machine need not have, a deterministic run changes them."""
    import torch._inductor.config as inductor

    before = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(mode != "default", warn_only=mode == "warn")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    expected = torch.get_deterministic_debug_mode(), inductor.deterministic
    try:
        for device in ("cpu", "cuda"):
            spec = make_spec(deterministic=True)
            vars(spec)["device"] = device
            with settings(spec):
                assert torch.get_deterministic_debug_mode() == (1 if device == "cuda" else expected[0])
            assert (torch.get_deterministic_debug_mode(), inductor.deterministic) == expected
    finally:
        torch.use_deterministic_algorithms(before > 0, warn_only=before == 1)


def test_too_large_a_buffer_is_one_line(out, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 78400000000 bytes.")

    monkeypatch.setattr("tfcsr.training.loop.Buffer", refuse)
    with pytest.raises(OutOfMemoryError, match=r"out of memory on cpu .* smaller buffer_capacity"):
        tfcsr.run(make_spec(out=str(out)))
    assert not out.exists()
    monkeypatch.setattr("tfcsr.training.loop.Buffer", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tfcsr.run(make_spec(out=str(out)))


def test_nothing_is_written_where_too_little_can_be_held_out(out):
    with pytest.raises(tfcsr.TfcsrError, match="too few to hold out"):
        tfcsr.run(make_spec(method="mgp", max_per_class=2, out=str(out)))
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_where_one_was_asked_for(out):
    with pytest.raises(DeviceError, match="no GPU"):
        tfcsr.run(make_spec(device="cuda", out=str(out)))
    assert not out.exists()


def test_device_and_threads_are_decided_once():
    spec = on_this_machine(make_spec(device="auto", threads=0))
    assert spec.device in ("cpu", "cuda")
    assert spec.threads == cores()
    assert on_this_machine(make_spec(threads=0), threads=1).threads == 1
    assert on_this_machine(make_spec(threads=3), threads=1).threads == 3


def test_a_run_leaves_torchs_switches_as_they_were():
    torch.set_num_threads(2)
    tfcsr.run(make_spec(epochs=1, threads=1))
    assert torch.get_num_threads() == 2
