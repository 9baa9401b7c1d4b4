import pytest
import torch
from tests.conftest import make_spec

from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.training.loop import build_model


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_papers_parameter_counts():
    assert count(MODELS.get("cnn")((1, 28, 28), 10)) == 421_642
    assert count(MODELS.get("resnet18")((3, 32, 32), 100)) == 11_220_132


@pytest.mark.parametrize("name", ["cnn", "resnet18"])
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
