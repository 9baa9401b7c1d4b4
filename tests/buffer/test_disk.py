import copy
import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcsr import Learner, RunSpec, run
from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.disk import RowFile
from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Field
from tfcsr.errors import OutputError, SpecError
from tfcsr.experiments.folder import RunFolder
from tfcsr.testing import make_training
from tfcsr.training.checkpoint import Checkpoints

SHAPE = (2, 1, 3)
FIELDS = {"benchmark": "split-digits", "max_per_class": 12, "epochs": 2, "batch_size": 8, "threads": 1, "device": "cpu"}


def features(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).float() + 1


def gradients(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.flatten(1)[:, :2].float() - y[:, None], features(x)


def two(policy: str, capacity: int, folder: Path | None = None) -> tuple[Buffer, Buffer]:
    """The same buffer in memory and on disk."""
    beside = {"said": Field((2,), torch.float32)}

    def one(on_disk: bool) -> Buffer:
        made = POLICIES.get(policy)(**{option.name: option.default for option in POLICIES.options(policy)})
        return Buffer(capacity, SHAPE, made, beside=beside, on_disk=on_disk, folder=folder)

    return one(False), one(True)


def assert_same(one: Buffer, other: Buffer) -> None:
    assert (one.size, one.seen, one.nbytes, one.shape) == (other.size, other.seen, other.nbytes, other.shape)
    assert torch.equal(one.x, other.x)
    assert all(torch.equal(one.fields[name], field) for name, field in other.fields.items())
    assert torch.equal(one.classes(), other.classes())


def arrivals(seed: int, count: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, *SHAPE), generator=draw).to(torch.uint8)
    return x, torch.randint(0, classes, (count,), generator=draw)


@pytest.mark.parametrize("policy", POLICIES.names())
@settings(max_examples=15, deadline=None)
@given(
    capacity=st.integers(1, 12),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "remove", "write", "keep", "back"]), st.integers(0, 30)), max_size=12
    ),
)
def test_a_buffer_on_disk_is_the_one_in_memory(policy, capacity, steps):
    ram, disk = two(policy, capacity)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    kept = []
    for number, (what, value) in enumerate(steps):
        for buffer, generator in zip((ram, disk), generators, strict=True):
            if what == "add":
                buffer.add(*arrivals(number, value, 4), generator, features, gradients)
            elif what == "remove":
                buffer.remove(value % 4)
            elif what == "write" and len(buffer):
                buffer.write(torch.tensor([value % len(buffer)]), said=torch.tensor([[value, 1.0]]))
        if what == "keep":
            kept.append((copy.deepcopy(ram.state_dict()), copy.deepcopy(disk.state_dict())))
        elif what == "back" and kept:
            states = kept[value % len(kept)]
            # Whichever it was, on disk or in memory, each takes it.
            for buffer, state in zip((ram, disk), states if value % 3 else states[::-1], strict=True):
                buffer.load_state_dict(state)
        assert_same(ram, disk)


@pytest.mark.parametrize("policy", ["reservoir", "class-balanced"])
def test_what_a_checkpoint_knows_is_never_written_over(policy, tmp_path):
    ram, disk = two(policy, 20, tmp_path / "buffer")
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    states = {}
    checkpoints = Checkpoints(tmp_path / "checkpoint", "key")
    for number in range(1, 8):
        for buffer, generator in zip((ram, disk), generators, strict=True):
            buffer.add(*arrivals(number, 25, 4), generator)
        checkpoints.save(number, {"buffer": disk.state_dict()}, 0)
        states[number] = copy.deepcopy(ram.state_dict())
        disk.add(*arrivals(number + 100, 25, 4), torch.Generator().manual_seed(5))  # after it, and lost with a kill
        files = {path.name for path in (tmp_path / "checkpoint").glob("*.json")}
        assert files == {f"{n}.json" for n in (number - 1, number) if n}
        found = Checkpoints(tmp_path / "checkpoint", "key").load()
        disk.load_state_dict(found.state["buffer"])
        assert_same(ram, disk)
        del found  # from here on only the files say what is held
        if number > 1:  # nor what the one before it knows
            (tmp_path / "checkpoint" / f"{number}.json").rename(tmp_path / "away")
            before = Checkpoints(tmp_path / "checkpoint", "key").load()
            other = two(policy, 20)[0]
            other.load_state_dict(before.state["buffer"])
            assert torch.equal(other.x, states[number - 1]["x"])
            (tmp_path / "away").rename(tmp_path / "checkpoint" / f"{number}.json")
            del before
        gc.collect()
    # Rows that nobody holds are used again: two checkpoints and what is being written, not all there ever was.
    assert disk.disk.file._end <= 20 + 3 * 25
    assert len(list((tmp_path / "buffer").iterdir())) == 1


def test_a_checkpoint_costs_what_changed(tmp_path):
    _, disk = two("reservoir", 100, tmp_path / "buffer")
    disk.add(*arrivals(0, 100, 4), torch.Generator())
    checkpoints = Checkpoints(tmp_path / "checkpoint", "key")
    checkpoints.save(1, {"buffer": disk.state_dict()}, 0)
    (version,) = (tmp_path / "checkpoint").glob("*.version")
    written = version.stat().st_mtime_ns
    checkpoints.save(2, {"buffer": disk.state_dict()}, 0)
    checkpoints.save(3, {"buffer": disk.state_dict()}, 0)
    assert [path.stat().st_mtime_ns for path in (tmp_path / "checkpoint").glob("*.version")] == [written]
    assert checkpoints.tensors(3).stat().st_size < 200  # none of the examples, nor of what is known of each


def test_damage_is_told(tmp_path):
    _, disk = two("reservoir", 10, tmp_path / "buffer")
    disk.add(*arrivals(0, 10, 4), torch.Generator())
    disk.lie_in(tmp_path / "buffer")
    (path,) = (tmp_path / "buffer").iterdir()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    disk.examples(torch.tensor([3, 4]))
    with pytest.raises(OutputError, match=r"rows is damaged in row 0, or another process"):
        disk.examples(torch.tensor([3, 0]))


def test_a_manifest_names_no_file_elsewhere(tmp_path):
    _, disk = two("reservoir", 10, tmp_path / "buffer")
    disk.add(*arrivals(0, 10, 4), torch.Generator())
    checkpoints = Checkpoints(tmp_path / "checkpoint", "key")
    checkpoints.save(1, {"buffer": disk.state_dict()}, 0)
    for name in ("name", "rows"):
        about = checkpoints._keep(disk.state_dict()["disk"]) | {name: "../spec.json"}
        with pytest.raises(ValueError, match="elsewhere"):
            checkpoints._read_version(about)


def test_what_is_temporary_is_gone_with_its_owner(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = RowFile(4)
    file.write(torch.zeros((2, 4), dtype=torch.uint8).numpy())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["er", "tfcsr", "derpp", "icarl"])
def test_a_run_comes_out_the_same(method, tmp_path):
    fields = FIELDS | {"method": method, "buffer_capacity": 30, "exam_share": 0.2}
    ram = run(RunSpec(**fields, out=str(tmp_path / "ram")))
    disk = run(RunSpec(**fields, out=str(tmp_path / "disk"), buffer_on="disk"))
    assert disk.weights_sha256 == ram.weights_sha256
    assert (disk.accuracy_matrix, disk.buffer_bytes) == (ram.accuracy_matrix, ram.buffer_bytes)
    assert RunSpec(**fields).key() == RunSpec(**fields, buffer_on="disk").key()
    ends = [Learner.load(tmp_path / name) for name in ("ram", "disk")]
    memories = [memory for end in ends for memory in end._memories()]
    assert torch.equal(memories[0].x, memories[2].x)
    assert torch.equal(memories[1].x, memories[3].x)
    before = {path.name: path.read_bytes() for path in (tmp_path / "disk" / "buffer").iterdir()}
    for end in ends:  # it goes on; what the run has kept stays as it is
        end.learn(torch.randint(0, 17, (40, 1, 8, 8), dtype=torch.uint8), torch.arange(40) % 4, epochs=1)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "disk" / "buffer").iterdir()}
    assert len(before) == 2


def test_a_run_without_a_folder_or_without_a_network_leaves_no_rows(tmp_path):
    fields = FIELDS | {"method": "er", "buffer_on": "disk"}
    there = run(RunSpec(**fields, out=str(tmp_path / "run"), keep_model=False))
    assert run(RunSpec(**fields)).weights_sha256 == there.weights_sha256
    assert not (tmp_path / "run" / "buffer").exists()


KILLED = """
import os, pathlib, signal, sys
from tfcsr import RunSpec, run
from tfcsr.buffer import disk

left = int(sys.argv[1])

def counted(function):
    def call(*given):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given)
    return call

disk._write_all, pathlib.Path.replace = counted(disk._write_all), counted(pathlib.Path.replace)
run(RunSpec(**FIELDS))
"""


@pytest.mark.parametrize("at", [5, 12])
def test_a_run_that_is_killed_goes_on_to_the_same_bits(at, tmp_path):
    fields = FIELDS | {"method": "tfcsr", "buffer_capacity": 30, "exam_share": 0.2, "checkpoint_every": 1}
    whole = run(RunSpec(**fields))
    code = KILLED.replace("FIELDS", repr(fields | {"buffer_on": "disk", "out": str(tmp_path)}))
    ended = subprocess.run([sys.executable, "-c", code, str(at)], check=False)
    assert ended.returncode == -signal.SIGKILL
    result = run(RunFolder(tmp_path).spec()) if (tmp_path / "spec.json").exists() else None
    if result is None:  # killed before anything was begun
        result = run(RunSpec(**fields, buffer_on="disk", out=str(tmp_path)))
    assert result.weights_sha256 == whole.weights_sha256
    assert result.accuracy_matrix == whole.accuracy_matrix
    assert len(list((tmp_path / "buffer").iterdir())) == 2


def test_a_learner_saves_loads_and_is_saved_elsewhere(tmp_path):
    options = {"model": "mlp", "buffer_capacity": 20, "exam_share": 0.2, "epochs": 1, "threads": 1, "device": "cpu"}
    learners = [Learner(**options, buffer_on=where) for where in ("ram", "disk")]
    for number in range(3):
        x, y = arrivals(number, 40, 2 + number)
        for learner in learners:
            learner.learn(x.reshape(40, 1, 2, 3), y.tolist())
        learners[1].save(tmp_path / f"{number % 2}")
        if number == 1:
            learners[1] = Learner.load(tmp_path / "1")
    for one, other in zip(learners[0]._memories(), learners[1]._memories(), strict=True):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    again = Learner.load(tmp_path / "1")  # which was left at the second instalment
    assert len(again.history) == 2
    assert len(again._memories()[0].x) == len(learners[0]._memories()[0].x)
    assert len(list((tmp_path / "0" / "buffer").iterdir())) == 2


def test_what_does_not_go_together_is_one_line(monkeypatch):
    monkeypatch.setattr("tfcsr.processes.Processes.several", True)
    with pytest.raises(SpecError, match=r"^buffer_on disk is for one process: use ram, or start it without torchrun$"):
        make_training(method="er", buffer_on="disk")
