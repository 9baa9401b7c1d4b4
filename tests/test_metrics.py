import pytest

from tfcsr.metrics import backward_transfer, forgetting, forward_transfer, pooled_accuracy

# Three tasks; rows after each task, worked out by hand below.
MATRIX = [
    [90.0, 10.0, 0.0],
    [60.0, 80.0, 20.0],
    [70.0, 50.0, 100.0],
]


def test_pooled_accuracy_weighs_by_test_examples():
    # 90 of 100 and 80 % of 300: (60 * 100 + 80 * 300) / 400
    assert pooled_accuracy(MATRIX[1], [100, 300, 600], 2) == 75.0
    assert pooled_accuracy(MATRIX[2], [100, 300, 600], 3) == pytest.approx(7 + 15 + 60)
    assert pooled_accuracy(MATRIX[0], [100, 300, 600], 1) == 90.0


def test_forgetting_is_from_the_best_there_was():
    # task 1: best of 90, 60 is 90, now 70: 20; task 2: best 80, now 50: 30
    assert forgetting(MATRIX) == 25.0


def test_forgetting_counts_a_best_reached_later():
    assert forgetting([[50.0, 0.0, 0.0], [80.0, 60.0, 0.0], [70.0, 65.0, 90.0]]) == (10 + -5) / 2


def test_backward_transfer_is_from_when_it_was_learned():
    # task 1: 70 - 90 = -20; task 2: 50 - 80 = -30
    assert backward_transfer(MATRIX) == -25.0


def test_forward_transfer_is_over_the_untrained_network():
    # task 2 before it is learned: 10 against 5; task 3: 20 against 12
    assert forward_transfer(MATRIX, [50.0, 5.0, 12.0]) == (5 + 8) / 2


def test_what_was_not_measured_does_not_count():
    # Known after tasks 2 and 4. Task 1: 60, now 55; task 2: 80, now 50; task 3 was not asked for before the end.
    matrix = [None, [60.0, 80.0, 20.0, 5.0], None, [55.0, 50.0, 90.0, 95.0]]
    assert forgetting(matrix) == (5 + 30) / 2
    # Only task 2 was asked for when it was just learned; only task 3 just before it was.
    assert backward_transfer(matrix) == -30.0
    assert forward_transfer(matrix, [50.0, 5.0, 12.0, 1.0]) == 8.0


def test_one_evaluation_says_nothing_about_change():
    matrix = [None, None, [55.0, 50.0, 90.0]]
    assert forgetting(matrix) is backward_transfer(matrix) is forward_transfer(matrix, [1.0, 2.0, 3.0]) is None


def test_one_task_has_no_transfer():
    assert forgetting([[90.0]]) is backward_transfer([[90.0]]) is forward_transfer([[90.0]], [10.0]) is None
