import json

import pytest

from tfcsr.errors import OutputError
from tfcsr.training.events import JsonLines


def test_a_history_is_cut_back_to_what_the_checkpoint_knows(tmp_path):
    path = tmp_path / "events.jsonl"
    first = JsonLines(path)
    first({"event": "a"})
    known = first.synced()
    first({"event": "b", "text": "long" * 1000})
    first.close()
    with path.open("ab") as file:
        file.write(b'{"event": "half a li')
    again = JsonLines(path, known)
    again({"event": "step"})
    again({"event": "run_resumed"})
    again({"event": "c"})
    again.close()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["a", "c"]


def test_a_run_that_starts_over_starts_its_history_over(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("old\n" * 100)
    JsonLines(path).close()
    assert path.read_text() == ""


def test_a_history_that_was_cut_is_refused(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("four")
    with pytest.raises(OutputError, match="has 4 bytes, its checkpoint knows of 9"):
        JsonLines(path, 9)
    with pytest.raises(OutputError, match="cannot write"):
        JsonLines(tmp_path / "absent.jsonl", 9)
