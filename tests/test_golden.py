"""Final accuracies on the embedded digits, as published beside the tests with their spread over ten seeds."""

import json
from pathlib import Path

import pytest

import tfcsr
from tfcsr.methods import METHODS

GOLDEN = json.loads((Path(__file__).parent / "golden" / "split_digits.json").read_text())["methods"]


def test_every_method_has_a_golden_accuracy():
    assert set(GOLDEN) == {name for name in METHODS.names() if METHODS.is_built_in(name)}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("method", GOLDEN)
def test_final_accuracy(method, seed):
    """Another processor rounds otherwise and so ends elsewhere, but within the spread between seeds."""
    result = tfcsr.run(tfcsr.RunSpec(method=method, seed=seed, device="cpu", threads=1))
    golden = GOLDEN[method]
    margin = max(2.0, 3 * golden["standard_deviation"])
    assert result.final_accuracy == pytest.approx(golden["mean"], abs=margin)


def test_the_order_of_the_methods_is_told_apart():
    """The margins are narrow enough to notice replay that is broken."""
    floor = GOLDEN["er"]["mean"] - 3 * GOLDEN["er"]["standard_deviation"]
    assert floor > GOLDEN["finetune"]["mean"] + 3 * GOLDEN["finetune"]["standard_deviation"]
    assert GOLDEN["tfcsr"] == GOLDEN["er"]
