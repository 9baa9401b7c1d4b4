import pytest

from tests.conftest import TEST_MODELS
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark
from tfcsr.errors import SpecError
from tfcsr.methods import METHODS
from tfcsr.models import MODELS
from tfcsr.recall.schedule import SCHEDULES


def test_what_there_is():
    assert set(METHODS.names()) >= {"finetune", "joint", "er", "ewc", "si", "tfcsr", "tfcsr-spaced", "mgp"}
    assert set(BENCHMARKS.names()) >= {
        "split-digits",
        "split-mnist",
        "split-fashion-mnist",
        "split-cifar10",
        "split-cifar100",
    }
    assert set(MODELS.names()) >= {"cnn", "mlp", "resnet18", *TEST_MODELS}
    assert POLICIES.names() == ["class-balanced", "gradient", "herding", "ipm", "reservoir"]
    assert SCHEDULES.names() == ["expanding", "fixed", "fsrs", "leitner", "sm2"]


@pytest.mark.parametrize("registry", [METHODS, BENCHMARKS, MODELS, POLICIES, SCHEDULES], ids=lambda r: r.kind)
def test_every_built_in_entry_loads_and_says_what_it_is(registry):
    for name in registry.names():
        assert registry.get(name) is not None
        if registry.ships(name) and not registry.home(name).startswith("tfcsr.testing"):
            assert len(registry.describe(name)) > 20, name


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(SpecError, match=r"unknown method 'sgd': use one of derpp, er, .*--plugin"):
        METHODS.get("sgd")


def test_an_entry_knows_which_module_added_it():
    """Of an instance, such as a benchmark, its class would say that it is ours."""
    BENCHMARKS.add("own")(Benchmark(lambda data_dir: None, 2, 1))
    try:
        assert BENCHMARKS.home("own") == __name__
        assert not BENCHMARKS.ships("own")
    finally:
        BENCHMARKS.remove("own")
    assert MODELS.home("tiny-bn") == "tfcsr.testing"
    assert MODELS.ships("cnn")
    assert SCHEDULES.ships("fixed")
    assert (
        MODELS.describe("tiny-bn")
        == "With batch normalisation, whose statistics and modes are what a careless probe would spoil."
    )


def test_a_family_makes_entries_of_what_follows_its_name(tmp_path):
    (tmp_path / "a").mkdir()
    name = f"folder:{tmp_path}"
    assert BENCHMARKS.families == {"folder": "PATH", "npz": "FILE"}
    assert BENCHMARKS.family(name) == "folder"
    assert BENCHMARKS.get(name).classes == 1
    (tmp_path / "b").mkdir()
    assert BENCHMARKS.get(name).classes == 2  # looked at anew
    assert [option.name for option in BENCHMARKS.options(name)] == ["size", "skip_unreadable", "test_share"]
    assert BENCHMARKS.ships(name)
    assert BENCHMARKS.home(name) == "tfcsr.data.benchmarks.folder"


def test_a_family_is_listed_by_its_form():
    assert BENCHMARKS.forms()[-2:] == ["folder:PATH", "npz:FILE"]
    assert not {"folder", "npz"} & {*BENCHMARKS.names()}
    for form in ("folder:PATH", "npz:FILE"):
        for name in ("folder", "npz"):
            BENCHMARKS.remove(name)  # as before it was ever asked for
        assert BENCHMARKS.describe(form).startswith("Images of your own")


@pytest.mark.parametrize("name", ["folder", "folder:", "npz", "nope:PATH", "split-digits:x"])
def test_a_family_needs_something_to_follow(name):
    with pytest.raises(SpecError, match=r"unknown benchmark .*: use one of .*folder:PATH, npz:FILE"):
        BENCHMARKS.get(name)
