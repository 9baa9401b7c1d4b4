"""A record that cannot be is refused, in one line."""

import dataclasses
import json

import pytest

from tests.beyond.invented import record_of
from tfcsr.errors import OutputError
from tfcsr.experiments.record import Record, Records
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "it has no sessions"),
        ({"specs": [3]}, r"its specs are \[3\]"),
        ({"specs": []}, "there is no number 0 among its specs"),
        ({"specs": [{"method": "er"}, "x"]}, "its specs are"),
        ({"machines": None}, "it has no machines"),
        ({"runs": {"a": 1}}, "its runs are"),
        ({"runs": [None]}, "its runs are"),
        ({"runs": [{}]}, "something in it has no 'spec'"),
        ({"sessions": [{}]}, "something in it has no 'machine'"),
        ({"sessions": 5}, "its sessions are 5"),
    ],
)
def test_a_file_of_something_else_is_refused_in_our_words(tmp_path, wrong, said):
    path = tmp_path / "results.json"
    Records([record_of(RunSpec(method="er"), 50.0)]).write(path)
    there = json.loads(path.read_text())
    path.write_text(json.dumps(there | wrong if isinstance(wrong, dict) else wrong))
    with pytest.raises(OutputError, match=rf"results\.json does not hold results of tfcsr: {said}") as refused:
        Records.read(path)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith("; move it away to begin anew")
