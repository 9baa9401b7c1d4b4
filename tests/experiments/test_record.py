"""A record that cannot be is refused, in one line."""

import dataclasses

import pytest

from tests.beyond.invented import record_of
from tfcsr.errors import OutputError
from tfcsr.experiments.record import Record
from tfcsr.spec import RunSpec

RIGHT = {"replayed": 12, "recall_asked": [[4, 0]], "recall_right": [[4, 0]], "class_accuracy": [[0.0, 100.0]]}


def kept(**more):
    return dataclasses.asdict(record_of(RunSpec(method="er"), 50.0)) | RIGHT | more


def test_what_can_be_is_read():
    assert Record.from_dict(kept(), "here").replayed == 12


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"replayed": -1}, "a count in it cannot be"),
        ({"class_accuracy": [[101.0]]}, "no percentage"),
        ({"class_accuracy": [[-0.1]]}, "no percentage"),
        ({"recall_right": [[5, 0]]}, "more was recalled of a class than asked"),
        ({"recall_right": [[-1, 0]]}, "more was recalled"),
        ({"recall_asked": [["x"]]}, "recall_asked is"),
        *(({"probes": [[1, epoch, 50.0]]}, "of no task or epoch") for epoch in (0, -3, 2.5, 1e300)),
        ({"probes": [[99, 1, 50.0]]}, "of no task or epoch"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(OutputError, match=said) as caught:
        Record.from_dict(kept(**wrong), "run 3 in results.json")
    assert str(caught.value).startswith("run 3 in results.json is damaged: ")
