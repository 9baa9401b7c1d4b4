"""What is exported gives the scores that the network gives, with nothing of this package around it."""

import copy
import json
import logging
import sys
import warnings

import pytest
import torch
from torch import nn

from tfcsr.errors import OutputError, SpecError
from tfcsr.models import MODELS, export
from tfcsr.models.export import Normalised

LABELS = ["cat", "Straßenbahn", "猫", 'a "quoted", one\n']


class Tokens(nn.Module):
    """Word ids [N, T] through attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embedding(x)).mean(1))


def images(count: int, *shape: int) -> torch.Tensor:
    return torch.randint(256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))


def pixels(model: nn.Module, channels: int) -> nn.Module:
    return Normalised(model, torch.full((1, channels, 1, 1), 120.0), torch.full((1, channels, 1, 1), 60.0))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4))


NETWORKS = {
    "cnn": (lambda: pixels(MODELS.get("cnn")((1, 8, 8), 4), 1), lambda count: images(count, 1, 8, 8)),
    "resnet18": (lambda: pixels(MODELS.get("resnet18")((3, 8, 8), 4), 3), lambda count: images(count, 3, 8, 8)),
    "tokens": (lambda: Normalised(Tokens()), lambda count: images(count, 5).long() % 50),
    "mlp": (mlp, lambda count: torch.randn(count, 6, generator=torch.Generator().manual_seed(count))),
}


@pytest.fixture(params=NETWORKS)
def case(request):
    torch.manual_seed(0)
    make, some = NETWORKS[request.param]
    network = make()
    with torch.no_grad():  # statistics that matter
        network.train()(some(9))
    return network.to(memory_format=torch.channels_last), some


def answers(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(network).eval()(x)


def load_pt2(path):
    extra = {"labels.json": ""}
    with warnings.catch_warnings():  # torch's own
        warnings.simplefilter("ignore")
        program = torch.export.load(path, extra_files=extra).module()
    return program, json.loads(extra["labels.json"])


def require_private(path, example):
    """Neither the example nor the folders of this machine are anybody's business."""
    data = path.read_bytes()
    assert example.numpy().tobytes() not in data
    assert b"site-packages" not in data
    assert b"export.py" not in data


@pytest.fixture
def quiet(capfd, monkeypatch):
    """Nothing is printed, and nothing is logged: torch's log goes to the terminal by a way of its own."""
    logged = []
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda self, record: logged.append(record))
    yield
    assert not [record for record in logged if record.levelno > logging.DEBUG]
    assert tuple(capfd.readouterr()) == ("", "")


def test_torch_reads_it_back(case, tmp_path, quiet):
    network, some = case
    modes = [module.training for module in network.modules()]
    before = copy.deepcopy(network.state_dict())
    strides = {name: value.stride() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()

    export.export(network, some(1), LABELS, tmp_path / "network.pt2")

    require_private(tmp_path / "network.pt2", some(1))
    program, labels = load_pt2(tmp_path / "network.pt2")
    assert labels == LABELS
    for count in (1, 2, 7):
        assert torch.allclose(program(some(count)), answers(network, some(count)), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["network.pt2"]
    # And the network is as it was.
    assert [module.training for module in network.modules()] == modes
    assert all(parameter.requires_grad for parameter in network.parameters())
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.stride() == strides[name]
    assert torch.equal(state, torch.get_rng_state())


def test_onnx_runs_it(case, tmp_path, quiet):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    network, some = case
    export.export(network, some(3), LABELS, tmp_path / "network.onnx")

    require_private(tmp_path / "network.onnx", some(3))
    session = runtime.InferenceSession(tmp_path / "network.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == LABELS
    assert [value.name for value in session.get_inputs()] == ["input"]
    assert [(value.name, value.shape) for value in session.get_outputs()] == [("scores", ["batch", 4])]
    for count in (1, 2, 7):
        (scores,) = session.run(["scores"], {"input": some(count).numpy()})
        expected = answers(network, some(count))
        assert torch.allclose(torch.from_numpy(scores), expected, atol=1e-4)
        assert torch.equal(torch.from_numpy(scores).argmax(1), expected.argmax(1))
    assert [path.name for path in tmp_path.iterdir()] == ["network.onnx"]


def test_the_same_network_gives_the_same_file(tmp_path):
    network = mlp()
    for path in (tmp_path / "one.pt2", tmp_path / "two.pt2"):
        export.export(network, torch.randn(3, 6), LABELS, path)
    assert (tmp_path / "one.pt2").read_bytes() == (tmp_path / "two.pt2").read_bytes()


def test_weights_too_large_for_one_file_lie_beside_it(tmp_path, monkeypatch, quiet):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(export, "LARGEST", 10)
    network = nn.Linear(64, 4)
    x = torch.randn(7, 64)
    export.export(network, x, LABELS, tmp_path / "network.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"network.onnx", "network.onnx.data"}
    session = runtime.InferenceSession(tmp_path / "network.onnx")
    (scores,) = session.run(None, {"input": x.numpy()})
    assert torch.allclose(torch.from_numpy(scores), answers(network, x), atol=1e-4)
    assert json.loads(session.get_modelmeta().custom_metadata_map["labels"]) == LABELS


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)


class ByValue(Choosing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("this is slow", stacklevel=1)
        return self.head(x) if x.sum() > 0 else self.head(-x)


class ByBatch(Choosing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) if len(x) < 3 else self.head(-x)


class Guessing(Choosing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x) + torch.rand(4)


class Squeezing(Choosing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x).squeeze()


class Failing(Choosing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no\nidea")


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (ByValue(), "cannot be exported: Could not guard on data-dependent expression .*; its forward must take the s"),
        (ByBatch(), "cannot be exported: .*every batch size"),
        (Guessing(), "cannot be exported: the traced one gives other scores"),
        (Squeezing(), r"a tensor of \(4,\) for 1 examples"),
        (Failing(), r"the network fails on an input of \(2, 6\): no$"),
        (nn.Linear(5, 4), "the network fails on an input of .* shapes cannot be multiplied"),
        (nn.Linear(6, 3), "gives 3 scores: 4 labels"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_exported_is_refused_in_one_line_and_leaves_the_old_file(network, reason, tmp_path, quiet):
    path = tmp_path / "network.pt2"
    path.write_bytes(b"old")
    with pytest.raises(SpecError, match=reason) as caught:
        export.export(network, torch.randn(4, 6), LABELS, path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [left.name for left in tmp_path.iterdir()] == ["network.pt2"]


def test_what_onnx_has_no_word_for_is_refused(tmp_path, quiet):
    pytest.importorskip("onnxscript")

    class Bessel(Choosing):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(self.head(x))

    with pytest.raises(SpecError, match=r"cannot be exported: No ONNX function found for .*bessel_j0") as caught:
        export.export(Bessel(), torch.randn(2, 6), LABELS, tmp_path / "network.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", export.SUFFIXES)
def test_a_disk_that_refuses_is_named(suffix, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(export, "LARGEST", 10)
    with pytest.raises(OutputError, match=r"cannot write .*nowhere.*: No such file"):
        export.export(nn.Linear(6, 4), torch.randn(2, 6), LABELS, tmp_path / "nowhere" / f"network{suffix}")


def test_other_formats_and_missing_packages_are_refused_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match=r"network.pth is in no known format: name it \*.pt2 or \*.onnx"):
        export.require_format(tmp_path / "network.pth")
    with pytest.raises(SpecError, match="there is none"):
        export.export(nn.Linear(6, 4), torch.zeros(0, 6), LABELS, tmp_path / "network.pt2")
    for missing in ("onnx", "onnxscript"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, missing, None)
            with pytest.raises(SpecError, match=r"pip install 'tfcsr\[onnx\]'"):
                export.export(nn.Linear(6, 4), torch.zeros(2, 6), LABELS, tmp_path / "network.onnx")


def test_normalised_is_what_the_network_was_trained_on():
    seen = []
    inner = nn.Identity()
    inner.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = images(3, 2, 4, 4)
    mean, std = torch.tensor([10.0, 20.0]).reshape(1, 2, 1, 1), torch.tensor([2.0, 4.0]).reshape(1, 2, 1, 1)
    network = Normalised(inner, mean, std)
    network(x)
    Normalised(inner)(x)
    assert torch.equal(seen[0], (x.float() - mean) / std)
    assert seen[1] is x
    assert set(dict(network.named_buffers())) == {"mean", "std"}
    assert not dict(Normalised(inner).named_buffers())
