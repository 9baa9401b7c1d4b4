import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_spec
from torch import nn

from tfcsr import Learner, RunSpec
from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.models.export import export
from tfcsr.models.head import features, find_head, grow, trace_head
from tfcsr.models.mlp import HIDDEN
from tfcsr.training.loop import build_model


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_papers_parameter_counts():
    assert count(MODELS.get("cnn")((1, 28, 28), 10)) == 421_642
    assert count(MODELS.get("resnet18")((3, 32, 32), 100)) == 11_220_132


def test_the_perceptron_of_the_scenarios():
    """784-400-400-10, of van de Ven's comparison: the pixels come in as they are."""
    model = MODELS.get("mlp")((1, 28, 28), 10)
    assert [tuple(p.shape) for p in model.parameters()] == [(400, 784), (400,), (400, 400), (400,), (10, 400), (10,)]
    assert [type(layer) for layer in model] == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("name", ["cnn", "mlp", "resnet18"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 29, 31)])
def test_models_adapt_to_the_input(name, shape):
    assert MODELS.get(name)(shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


def test_too_small_an_input_is_refused():
    with pytest.raises(SpecError, match="3x9"):
        MODELS.get("cnn")((1, 3, 9), 10)


def test_resnet_downsamples_three_times():
    features = MODELS.get("resnet18")((3, 32, 32), 100)[:-3](torch.zeros(1, 3, 32, 32))
    assert features.shape == (1, 512, 4, 4)


def test_initial_weights_follow_the_seed_and_leave_the_global_generator_alone():
    one = build_model(make_spec(seed=1), (1, 4, 4), 6)
    torch.rand(5)
    state = torch.get_rng_state()
    same, other = build_model(make_spec(seed=1), (1, 4, 4), 6), build_model(make_spec(seed=2), (1, 4, 4), 6)
    assert torch.equal(state, torch.get_rng_state())
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c) or bool((a == a.flatten()[0]).all())  # batch norm starts at ones and zeros


# The perceptron's layers


@pytest.mark.parametrize("shape", [(6,), (1,), (2, 3), (1, 1, 1), (3, 2, 4, 5)])
def test_the_perceptron_takes_any_shape(shape):
    model = MODELS.get("mlp")(shape, 3, hidden=(5,))
    assert model(torch.zeros(2, *shape)).shape == (2, 3)
    assert count(model) == torch.zeros(shape).numel() * 5 + 5 + 5 * 3 + 3


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=16))
def test_layers_are_read_however_they_are_written(sizes):
    written = [
        ",".join(map(str, sizes)),
        ", ".join(map(str, sizes)),
        sizes,
        tuple(sizes),
        json.loads(json.dumps(sizes)),
    ]
    if len(sizes) == 1:
        written.append(sizes[0])
    assert {HIDDEN.checked(value) for value in written} == {tuple(sizes)}


def test_layers_in_a_spec():
    spec = RunSpec(model="mlp", hidden="20,30")
    assert spec.hidden == (20, 30)
    assert RunSpec(model="mlp").hidden == (400, 400)
    assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    assert spec.flags()[-2:] == ["--hidden", "20,30"]
    assert spec.key() != RunSpec(model="mlp").key() == RunSpec(model="mlp", hidden=[400, 400]).key()
    with pytest.raises(SpecError, match="hidden is an option of model mlp"):
        RunSpec(model="cnn", hidden="20")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "hidden '' is no list of layer sizes: use whole numbers like 400,400"),
        ("400,", "'400,' is no list"),
        ("a,b", "'a,b' is no list"),
        ("4.5", "'4.5' is no list"),
        ([], r"\[\] is no list"),
        ([400.0], r"\[400.0\] is no list"),
        ([[400]], "is no list"),
        (True, "True is no list"),
        ([True], "is no list"),
        (4.0, "4.0 is no list"),
        ({"a": 1}, "is no list"),
        ("9" * 5000, "is no list"),
        ("0", "a layer of 0 units: use 1 to 100000"),
        ("400,-1", "a layer of -1 units"),
        ([100_001], "a layer of 100001 units"),
        ([1] * 17, "17 layers: use at most 16"),
    ],
)
def test_layers_that_cannot_be(value, said):
    with pytest.raises(SpecError, match=said) as caught:
        RunSpec(model="mlp", hidden=value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="memory cannot be limited everywhere")
def test_layers_that_do_not_fit_into_memory():
    code = """
import resource, torch
from tfcsr.errors import SpecError
from tfcsr.models import MODELS
resource.setrlimit(resource.RLIMIT_AS, (12 << 30,) * 2)
try:
    MODELS.get("mlp")((1, 4, 4), 2, (100_000, 100_000))
except SpecError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "model mlp with hidden 100000,100000 does not fit into memory: use smaller layers\n"


def test_a_spec_with_layers_takes_no_torch():
    code = "from tfcsr import RunSpec; RunSpec(model='mlp', hidden='5'); import sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_perceptrons_head_is_found_and_grows():
    model = MODELS.get("mlp")((1, 4, 4), 3, (7, 5))
    x = torch.rand(6, 1, 4, 4)
    assert trace_head(model, x) == "5"
    assert features(model, x).shape == (6, 5)
    before = model(x)
    grow(find_head(model), 8, lambda number: number)
    assert model(x).shape == (6, 8)
    assert torch.equal(model(x)[:, :3], before)


def test_a_learner_with_a_perceptron(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, 9, generator=generator)
    y = [("low", "high")[int(row[:4].sum() > 2)] for row in x]
    learner = Learner(model="mlp", hidden="8,8", method="er", buffer_capacity=20, epochs=2, device="cpu", threads=1)
    learner.learn(x, y)
    learner.learn(x[:10] + 3, ["far"] * 10)
    learner.save(tmp_path / "kept")
    again = Learner.load(tmp_path / "kept")
    assert again.spec.hidden == (8, 8)
    assert [tuple(p.shape) for p in again.model.parameters()][-2] == (3, 8)
    assert list(again.predict(x)) == list(learner.predict(x))


def test_the_perceptron_is_exported(tmp_path: Path):
    model = MODELS.get("mlp")((2, 3, 3), 4, (6,)).eval()
    x = torch.rand(5, 2, 3, 3)
    export(model, x, [*"abcd"], tmp_path / "network.pt2")
    with warnings.catch_warnings():  # torch's own
        warnings.simplefilter("ignore")
        network = torch.export.load(tmp_path / "network.pt2").module()
    assert torch.allclose(network(x[:3]), model(x[:3]))
