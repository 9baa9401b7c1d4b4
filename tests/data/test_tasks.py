import pytest
import torch
from tests.conftest import striped_dataset

from tfcsr.data.tasks import TaskSequence, cut
from tfcsr.data.views import Views, crop_flip, draw_views
from tfcsr.errors import DataError


def test_the_papers_class_orders():
    assert cut(10, 5, 42) == [(2, 6), (1, 8), (4, 5), (0, 9), (3, 7)]
    cifar = cut(100, 10, 42)
    assert cifar[0] == (42, 96, 62, 98, 46, 95, 60, 24, 78, 16)
    assert cifar[1] == (68, 70, 11, 13, 97, 52, 99, 19, 71, 10)
    assert cifar[-1] == (14, 55, 0, 64, 77, 39, 25, 92, 49, 28)


@pytest.mark.parametrize(
    ("classes", "tasks", "sizes"),
    [
        (10, 3, [4, 4, 2]),
        (10, 4, [3, 3, 3, 1]),
        (10, 7, [2, 2, 2, 1, 1, 1, 1]),
        (10, 10, [1] * 10),
        (10, 1, [10]),
        (100, 30, [4] * 10 + [3] * 20),
    ],
)
def test_tasks_that_do_not_come_out_even(classes, tasks, sizes):
    parts = cut(classes, tasks, 0)
    assert [len(part) for part in parts] == sizes
    assert sorted(sum(parts, ())) == list(range(classes))


@pytest.mark.parametrize("classes", range(1, 40))
def test_every_number_of_tasks_is_possible(classes):
    for tasks in range(1, classes + 1):
        parts = cut(classes, tasks, tuple(range(classes)))
        assert len(parts) == tasks
        assert sum(parts, ()) == tuple(range(classes))


def test_a_given_order_is_kept():
    assert cut(4, 2, (3, 0, 2, 1)) == [(3, 0), (2, 1)]


def test_a_task_holds_its_classes_grouped_and_nothing_else():
    sequence = TaskSequence(striped_dataset(), 3, (5, 1, 0, 2, 4, 3))
    task = sequence.task(2)
    assert task.classes == (0, 2)
    assert task.train.y.tolist() == [0] * 40 + [2] * 40
    assert task.test.y.tolist() == [0] * 10 + [2] * 10
    assert len(task.held_out) == 0
    assert sequence.test.y.tolist() == [k for k in (5, 1, 0, 2, 4, 3) for _ in range(10)]


def test_at_most_so_many_per_class():
    task = TaskSequence(striped_dataset(), 3, 0, max_per_class=7).task(1)
    assert task.train.y.bincount().max() == 7
    assert len(task.train) == 14
    assert len(task.test) == 20


def test_held_out_examples_follow_the_seed():
    sequence = TaskSequence(striped_dataset(), 3, 0)
    one, same, other = (sequence.task(1, 0.25, seed).held_out.x for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert len(one) == 20


def test_too_few_to_hold_out():
    with pytest.raises(DataError, match="2 training examples"):
        TaskSequence(striped_dataset(), 3, 0, max_per_class=2).task(1, 0.1)


def test_crop_flip_against_one_by_one():
    x = torch.arange(3 * 2 * 17 * 18).remainder(251).to(torch.uint8).reshape(3, 2, 17, 18)
    crops = torch.tensor([[2, 2, 0], [0, 4, 1], [4, 3, 1]])
    seen = crop_flip(x, crops)
    assert torch.equal(seen[0], x[0])
    for image, (down, right, mirror), result in zip(x, crops.tolist(), seen, strict=True):
        padded = torch.nn.functional.pad(image, (2,) * 4)
        expected = padded[:, down : down + 17, right : right + 18]
        assert torch.equal(result, expected.flip(2) if mirror else expected)


def test_crops_cover_all_shifts_and_both_sides():
    crops = draw_views(5000, (3, 32, 32), torch.Generator().manual_seed(0))
    for column, values in ((0, 9), (1, 9), (2, 2)):
        counts = crops[:, column].bincount()
        assert len(counts) == values
        assert counts.min() > 0.8 * 5000 / values


@pytest.mark.parametrize(("size", "shift"), [(32, 4), (28, 3), (8, 1), (2, 1)])
def test_small_images_are_shifted_less(size, shift):
    assert int(draw_views(5000, (1, size, size), torch.Generator().manual_seed(0))[:, :2].max()) == 2 * shift


def test_normalised_by_channel():
    dataset = striped_dataset()
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(3, 1, 1, 1)
    expected = torch.tensor([-0.8, 0.0, 3.2]).reshape(3, 1, 1, 1)
    torch.testing.assert_close(Views.of(dataset, "cpu").normalised(x), expected)
