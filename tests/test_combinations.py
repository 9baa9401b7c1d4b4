"""A smaller helping of what the nightly script does."""

from tests.nightly.combinations import learners, runs


def test_options_that_meet_by_chance_end_in_a_result_or_in_one_line():
    assert runs(40, seed=1).startswith("40 runs, ")


def test_learners_stand_whatever_is_asked_of_them():
    assert learners(150, seed=1).startswith("150 learners, ")
