import copy
import json

import pytest
import torch
from tests.conftest import make_training, spoil

from tfcsr.errors import OutputError
from tfcsr.methods import METHODS
from tfcsr.training import checkpoint
from tfcsr.training.checkpoint import Checkpoints


def same(a, b):
    """Equal in every value, type and layout."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.fixture
def there(tmp_path):
    return Checkpoints(tmp_path / "checkpoint", "key")


def again(there):
    return Checkpoints(there.folder, there.key)


STATE = {
    "channels_last": torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last),
    "one_channel": torch.randn(4, 1, 3, 3).to(memory_format=torch.channels_last),
    "nested": {0: [torch.tensor(3.5), (1, 2.5, None, True, "text")], "1": {}},
    "kinds": [torch.zeros(0, 1, 28), torch.ones(3, dtype=torch.bfloat16), torch.tensor([True]), torch.arange(3)],
    "exact": [0.1, 1e-300, float("inf"), 2**70],
}


def test_whatever_a_state_holds_comes_back_as_it_was(there):
    there.save(7, STATE, 123)
    found = again(there).load()
    assert (found.number, found.events, found.damaged) == (7, 123, "")
    assert same(found.state, STATE)


@pytest.mark.parametrize("method", METHODS.names())
def test_the_state_of_a_training_comes_back_as_it_was(there, method):
    training = make_training(method=method, benchmark="split-digits", max_per_class=10, epochs=1, max_epochs=1)
    saved = []

    def boundary():
        there.save(training.epochs_trained, training.state_dict(), 0)
        saved.append(copy.deepcopy(training.state_dict()))

    training.run(boundary)
    assert same(again(there).load().state, saved[-1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_what_was_on_the_gpu_comes_back_there(tmp_path):
    state = {"gpu": STATE["channels_last"].cuda(), "cpu": torch.arange(3, dtype=torch.uint8)}
    Checkpoints(tmp_path / "checkpoint", "key", "cuda").save(1, state, 0)
    found = Checkpoints(tmp_path / "checkpoint", "key", "cuda").load().state
    assert same(found, state)
    assert (found["gpu"].device.type, found["cpu"].device.type) == ("cuda", "cpu")


def test_what_was_on_another_device_is_marked():
    """Without a GPU: what is read comes to the device it is asked for, if and only if it is marked."""
    found = checkpoint.put_together([{"tensor": "x", "on_device": True}, {"tensor": "x"}], {"x": torch.ones(1)}, "meta")
    assert [tensor.device.type for tensor in found] == ["meta", "cpu"]


def test_tensors_that_share_memory(there):
    tied = torch.randn(6)
    there.save(1, {"a": tied, "b": tied, "c": tied[2:], "d": tied.reshape(2, 3).t()}, 0)
    found = again(there).load().state
    assert torch.equal(found["a"], tied)
    assert torch.equal(found["b"], tied)
    assert torch.equal(found["c"], tied[2:])
    assert torch.equal(found["d"], tied.reshape(2, 3).t())


def test_names_that_look_alike(there):
    there.save(1, {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}}, 0)
    found = again(there).load().state
    assert (found["a/b"].item(), found["a"]["b"].item()) == (0, 1)


def test_what_cannot_be_kept_is_said(there):
    with pytest.raises(OutputError, match="cannot hold method/seen, a set"):
        there.save(1, {"method": {"seen": {1, 2}}}, 0)


def test_nothing_there_is_no_error(there):
    assert there.load() is None
    there.folder.mkdir()
    (there.folder / ".1.json.99.part").write_text("{")
    (there.folder / "1.safetensors").write_text("half")
    assert there.load() is None


def test_two_are_kept_and_nothing_else(there):
    there.save(1, STATE, 0)
    (there.folder / ".2.json.99.part").write_text("{")
    for number in (2, 3, 4):
        there.save(number, STATE, 0)
    names = sorted(path.name for path in there.folder.iterdir())
    assert names == ["3.json", "3.safetensors", "4.json", "4.safetensors"]
    there.clear()
    assert not there.folder.exists()
    there.clear()


@pytest.mark.parametrize(
    "damage",
    [
        lambda there: spoil(there.tensors(2)),
        lambda there: spoil(there.tensors(2), 0),
        lambda there: there.tensors(2).write_bytes(there.tensors(2).read_bytes()[:-1]),
        lambda there: there.tensors(2).write_bytes(b""),
        lambda there: there.tensors(2).unlink(),
        lambda there: there.manifest(2).write_text("{"),
        lambda there: there.manifest(2).write_text("[]"),
        lambda there: there.manifest(2).write_text('{"version": 1}'),
        lambda there: there.manifest(2).write_text(there.manifest(2).read_text().replace("2.5", "2.6")),
        lambda there: there.manifest(2).write_text("[" * 100_000),
        lambda there: there.manifest(2).write_bytes(b"\xff\xfe"),
    ],
)
def test_damage_is_noticed_and_the_one_before_stands_in(there, damage):
    there.save(1, STATE, 10)
    there.save(2, STATE, 20)
    damage(there)
    found = again(there).load()
    assert (found.number, found.events) == (1, 10)
    assert str(there.manifest(2)) in found.damaged
    there.tensors(1).unlink()
    with pytest.raises(OutputError, match=r"no sound checkpoint .*2\.json.*remove .* to start this run over"):
        again(there).load()


def test_after_damage_the_good_one_is_kept_until_there_is_a_better(there):
    there.save(1, STATE, 10)
    there.save(2, STATE, 20)
    spoil(there.tensors(2))
    resumed = again(there)
    resumed.load()
    resumed.save(2, STATE, 20)
    assert again(there).load().number == 2
    spoil(there.tensors(2))
    assert again(there).load().number == 1


@pytest.mark.parametrize("version", [0, 4, "1", None])
def test_an_unknown_version_is_refused_and_left_alone(there, version):
    there.save(1, STATE, 0)
    there.save(2, STATE, 0)
    whole = json.loads(there.manifest(2).read_text()) | {"version": version}
    there.manifest(2).write_text(json.dumps(whole))
    with pytest.raises(
        OutputError, match=r"has format .*, this version of tfcsr reads 2 and 3: go on with the version"
    ):
        again(there).load()
    assert json.loads(there.manifest(2).read_text()) == whole


def test_the_checkpoint_of_another_run_is_refused(there):
    there.save(1, STATE, 0)
    with pytest.raises(OutputError, match="of another run"):
        Checkpoints(there.folder, "other").load()


def test_a_disk_that_lies_is_noticed(there, monkeypatch):
    there.save(1, STATE, 10)
    monkeypatch.setattr("tfcsr.files.Path.read_bytes", lambda path: b"something else")
    with pytest.raises(OutputError, match="gives back something else"):
        there.save(2, STATE, 20)
    monkeypatch.undo()
    assert again(there).load().number == 1


def test_the_file_is_hardly_larger_than_what_it_must_hold(there):
    """The issue's bound, on the network of the CIFAR runs: weights, optimizer and buffer, times 1.2."""
    training = make_training(method="tfcsr", benchmark="tiny", model="resnet18", buffer_capacity=1000, max_per_class=8)
    sizes = []

    def boundary():
        there.save(1, training.state_dict(), 0)
        tensors = [*training.model.state_dict().values(), training.learner.buffer.x, training.learner.buffer.y]
        tensors += [t for state in training.optimizer.state.values() for t in state.values()]
        sizes.append(
            (there.tensors(1).stat().st_size + there.manifest(1).stat().st_size, sum(t.nbytes for t in tensors))
        )
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        training.run(boundary)
    assert sizes[0][0] < 1.2 * sizes[0][1]


def test_a_tensor_larger_than_its_file_is_not_made(there):
    """Shapes and strides are read off the file: what they claim is measured against what there is."""
    claims = [
        {"tensor": "x", "shape": [1 << 40], "stride": [1]},
        {"tensor": "x", "shape": [2, 2], "stride": [1 << 40, 1]},
        {"tensor": "x", "shape": [-1], "stride": [1]},
        {"tensor": "y"},
    ]
    for claim in claims:
        with pytest.raises(checkpoint.NONSENSE):
            checkpoint.put_together(claim, {"x": torch.zeros(4)}, "cpu")
