import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from tfcsr.buffer.buffer import Buffer, _floyd_by_column, _floyd_by_row


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stream(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples that carry their own number, in two bytes and in the label."""
    number = torch.arange(n)
    return torch.stack([number // 256, number % 256], dim=1).to(torch.uint8).reshape(n, 2, 1, 1), number


def filled(capacity: int, n: int, seed: int = 0) -> Buffer:
    buffer = Buffer(capacity, (2, 1, 1))
    buffer.add(*stream(n), seeded(seed))
    return buffer


def one_by_one(capacity: int, n: int, generator: torch.Generator) -> list[int]:
    """The textbook's algorithm R, with the same random numbers."""
    kept: list[int] = []
    for t in range(n):
        u = float(torch.rand(1, dtype=torch.float64, generator=generator))
        if t < capacity:
            kept.append(t)
        elif (slot := math.floor(u * (t + 1))) < capacity:
            kept[slot] = t
    return kept


@pytest.mark.parametrize("n", [0, 3, 10, 11, 500])
def test_reservoir_equals_the_one_by_one_algorithm(n):
    buffer = filled(10, n, seed=5)
    assert buffer.y[: len(buffer)].tolist() == one_by_one(10, n, seeded(5))


def test_feeding_in_pieces_changes_nothing():
    whole, pieces = filled(16, 300, seed=3), Buffer(16, (2, 1, 1))
    x, y = stream(300)
    generator = seeded(3)
    for start, stop in ((0, 1), (1, 20), (20, 20), (20, 257), (257, 300)):
        pieces.add(x[start:stop], y[start:stop], generator)
    assert torch.equal(whole.x, pieces.x)
    assert torch.equal(whole.y, pieces.y)
    assert pieces.seen == 300


def test_every_example_is_kept_with_the_same_probability():
    capacity, n, repeats = 20, 100, 2000
    generator = seeded(11)
    counts = torch.zeros(n, dtype=torch.int64)
    for _ in range(repeats):
        buffer = Buffer(capacity, (2, 1, 1))
        buffer.add(*stream(n), generator)
        counts[buffer.y] += 1
    assert int(counts.sum()) == capacity * repeats
    # Each count is binomial; with a fixed seed this either holds or the algorithm is wrong.
    low, high = binom.ppf([1e-6, 1 - 1e-6], repeats, capacity / n)
    assert low <= counts.min()
    assert counts.max() <= high
    early, late = counts[: n // 2].sum(), counts[n // 2 :].sum()
    assert chisquare([int(early), int(late)]).pvalue > 1e-4


def test_examples_and_labels_stay_together_and_are_copies():
    x, y = stream(1000)
    buffer = Buffer(50, (2, 1, 1))
    buffer.add(x, y, seeded())
    x.zero_()
    pixels = buffer.x.reshape(50, 2).long()
    assert torch.equal(pixels[:, 0] * 256 + pixels[:, 1], buffer.y)


def test_drawn_sets_hold_different_examples_each_set_equally_likely():
    buffer = filled(5, 5)
    drawn = buffer.draw(20_000, 2, seeded(1))
    assert int(drawn.min()) == 0
    assert int(drawn.max()) == 4
    assert bool((drawn[:, 0] != drawn[:, 1]).all())
    low, high = drawn.min(dim=1).values, drawn.max(dim=1).values
    counts = torch.bincount(low * 5 + high, minlength=25)
    assert chisquare(counts[counts > 0].tolist()).pvalue > 1e-3
    assert int((counts > 0).sum()) == 10


def test_drawing_all_gives_each_once():
    assert filled(6, 6).draw(1, 6, seeded())[0].sort().values.tolist() == list(range(6))


@given(size=st.integers(0, 60), sets=st.integers(0, 12), share=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_both_loops_draw_the_same(size, sets, share, seed):
    """The loop over rows and that over columns: from the fewest drawn to every example."""
    drawn = torch.rand((sets, round(share * size)), dtype=torch.float64, generator=seeded(seed))
    by_row, by_column = _floyd_by_row(drawn, size), _floyd_by_column(drawn, size)
    assert (by_row.shape, by_row.dtype) == (drawn.shape, torch.int64)
    assert torch.equal(by_row, by_column)
    assert all(len(set(row)) == len(row) and set(row) <= set(range(size)) for row in by_row.tolist())


def test_drawing_too_many_is_an_error():
    with pytest.raises(ValueError, match="7 different examples from 6"):
        filled(10, 6).draw(1, 7, seeded())


def test_state_round_trip():
    buffer, other = filled(8, 100), Buffer(8, (2, 1, 1))
    other.load_state_dict(buffer.state_dict())
    more, generator, other_generator = stream(50), seeded(9), seeded(9)
    buffer.add(*more, generator)
    other.add(*more, other_generator)
    assert torch.equal(buffer.y, other.y)
    assert (buffer.seen, len(buffer)) == (other.seen, len(other)) == (150, 8)


def test_classes_are_those_present():
    buffer = Buffer(10, (2, 1, 1))
    buffer.add(stream(3)[0], torch.tensor([7, 2, 7]), seeded())
    assert buffer.classes().tolist() == [2, 7]
