"""A smaller helping of what the nightly script does."""

from tests.nightly.load import grid, listing, long_sequence


def test_a_grid_uses_no_more_at_its_end_than_at_its_start_and_its_table_is_right(tmp_path):
    assert grid(40, tmp_path).startswith("40 runs")


def test_many_runs_are_listed_at_once(tmp_path):
    assert listing(2000, tmp_path).startswith("2000 folders")


def test_a_long_sequence_finishes(tmp_path):
    assert long_sequence(60, tmp_path).startswith("60 tasks")
