import pytest

from tests.conftest import TEST_MODELS
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.recall.schedule import SCHEDULES


def test_what_there_is():
    assert set(METHODS.names()) >= {"finetune", "joint", "er", "ewc", "si", "tfcsr", "tfcsr-spaced", "mgp"}
    assert set(BENCHMARKS.names()) >= {"split-digits", "split-mnist", "split-cifar100"}
    assert set(MODELS.names()) >= {"cnn", "resnet18", *TEST_MODELS}
    assert POLICIES.names() == ["reservoir"]
    assert SCHEDULES.names() == ["expanding", "fixed"]


@pytest.mark.parametrize("registry", [METHODS, BENCHMARKS, MODELS, POLICIES, SCHEDULES], ids=lambda r: r.kind)
def test_every_built_in_entry_loads_and_says_what_it_is(registry):
    for name in registry.names():
        assert registry.get(name) is not None
        if registry.is_built_in(name):
            assert len(registry.describe(name)) > 20, name


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(SpecError, match="unknown method 'sgd': use one of er, ewc"):
        METHODS.get("sgd")


def test_a_users_own_entry_is_found_but_not_by_other_processes():
    assert "tiny-bn" in MODELS.names()
    assert not MODELS.is_built_in("tiny-bn")
    assert MODELS.is_built_in("cnn")
    assert SCHEDULES.is_built_in("fixed")
    assert (
        MODELS.describe("tiny-bn")
        == "With batch normalisation, whose statistics and modes are what a careless probe would spoil."
    )
