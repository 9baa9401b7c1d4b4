"""A smaller helping of what the nightly script does."""

import gc
import weakref

import tfcsr
from tests.conftest import make_spec
from tests.nightly.load import grid, listing, long_sequence, looking
from tfcsr.experiments.training import Training


def test_a_grid_uses_no_more_at_its_end_than_at_its_start_and_its_table_is_right(tmp_path):
    assert grid(80, tmp_path).startswith("80 runs")


def test_many_runs_are_listed_at_once(tmp_path):
    assert listing(2000, tmp_path).startswith("2000 folders")


def test_a_long_sequence_finishes(tmp_path):
    assert long_sequence(60, tmp_path).startswith("60 tasks")


def test_a_run_goes_when_it_is_done_and_does_not_wait_to_be_collected(tmp_path, monkeypatch):
    made = []
    init = Training.__init__

    def remember(self, *arguments):
        made.append(weakref.ref(self))
        init(self, *arguments)

    monkeypatch.setattr(Training, "__init__", remember)
    gc.disable()
    try:
        tfcsr.run(make_spec(method="ewc", epochs=1, out=str(tmp_path / "run")))
        tfcsr.run(make_spec(method="tfcsr", epochs=1))
        assert [ref() for ref in made] == [None, None]
    finally:
        gc.enable()


def test_many_runs_are_looked_at(tmp_path):
    assert looking(400, tmp_path).startswith("400 runs")
