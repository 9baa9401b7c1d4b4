"""Which examples a policy keeps: against the published algorithms, one example at a time, and worked out by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from tfcsr import testing
from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.class_balanced import ClassBalancedReservoir
from tfcsr.buffer.policies.herding import Herding, herded


@pytest.mark.parametrize("check", testing.POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", POLICIES.names())
def test_policy(policy, check):
    check(policy)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(labels: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples that carry their own number, in two bytes."""
    number = torch.arange(len(labels))
    x = torch.stack([number // 256, number % 256], dim=1).to(torch.uint8).reshape(len(labels), 2, 1, 1)
    return x, torch.tensor(labels, dtype=torch.int64)


def numbers(buffer: Buffer) -> list[int]:
    pixels = buffer.x[: len(buffer)].reshape(-1, 2).long()
    return (pixels[:, 0] * 256 + pixels[:, 1]).tolist()


def counts(buffer: Buffer) -> dict[int, int]:
    labels = buffer.y[: len(buffer)].tolist()
    return {label: labels.count(label) for label in sorted(set(labels))}


# Class-balanced reservoir


def balanced(labels: list[int], capacity: int, seed: int = 0, cuts: tuple[int, ...] = ()) -> Buffer:
    buffer, generator = Buffer(capacity, (2, 1, 1), ClassBalancedReservoir()), seeded(seed)
    x, y = numbered(labels)
    for start, stop in zip((0, *cuts), (*cuts, len(labels)), strict=True):
        buffer.add(x[start:stop], y[start:stop], generator)
    return buffer


UNEVEN = [0] * 1000 + [1] * 30 + [2] * 10


def test_few_examples_of_a_class_are_as_many_in_the_buffer_as_those_of_a_large_one():
    assert counts(balanced(UNEVEN, 30)) == {0: 10, 1: 10, 2: 10}
    # Of class 2 there are only 4: all of them stay, and the other two classes share what is left.
    assert counts(balanced(UNEVEN[:-6], 30)) == {0: 13, 1: 13, 2: 4}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_all_of_a_small_class_stay(seed):
    labels = [UNEVEN[i] for i in torch.randperm(len(UNEVEN), generator=seeded(seed)).tolist()]
    found = counts(balanced(labels, 33, seed))
    assert found[2] == 10
    assert found[0] + found[1] == 23
    assert abs(found[0] - found[1]) <= 1


def algorithm_1(labels: list[int], capacity: int, generator: torch.Generator) -> list[int]:
    """Chrysakis & Moens (2020), algorithm 1, one example at a time, with the same random numbers."""
    memory: list[int] = []
    full: set[int] = set()
    for i, c in enumerate(labels):
        pick, place = torch.rand(2, dtype=torch.float64, generator=generator).tolist()
        stored = {label: [s for s, j in enumerate(memory) if labels[j] == label] for label in set(labels)}
        if len(memory) < capacity:
            memory.append(i)
            continue
        largest = max(len(slots) for slots in stored.values())
        full |= {label for label, slots in stored.items() if len(slots) == largest}
        if c not in full:
            victims = stored[min(label for label, slots in stored.items() if len(slots) == largest)]
            memory[victims[int(pick * len(victims))]] = i
        else:
            m_c, n_c = len(stored[c]), labels[: i + 1].count(c)
            if pick < m_c / n_c:
                memory[stored[c][int(place * m_c)]] = i
    return memory


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_published_algorithm(seed):
    generator = seeded(100 + seed)
    # Three classes of about 120, 60 and 20 examples in any order, so that a class becomes the largest now and then.
    labels = torch.multinomial(torch.tensor([0.6, 0.3, 0.1]), 200, replacement=True, generator=generator).tolist()
    assert numbers(balanced(labels, 17, seed)) == algorithm_1(labels, 17, seeded(seed))


def test_it_is_the_published_algorithm_when_classes_come_one_after_the_other():
    labels = [3] * 80 + [0] * 50 + [2] * 7 + [1] * 60 + [3] * 40
    assert numbers(balanced(labels, 20, 4)) == algorithm_1(labels, 20, seeded(4))


@given(
    labels=st.lists(st.integers(0, 4), max_size=80),
    capacity=st.integers(1, 20),
    seed=st.integers(0, 2**32),
    cuts=st.lists(st.floats(0, 1), max_size=5),
)
def test_feeding_in_pieces_changes_nothing(labels, capacity, seed, cuts):
    pieces = balanced(labels, capacity, seed, tuple(sorted(int(share * len(labels)) for share in cuts)))
    whole = balanced(labels, capacity, seed)
    assert numbers(pieces) == numbers(whole)
    assert (pieces.policy.seen, set(pieces.policy.full)) == (whole.policy.seen, set(whole.policy.full))


def test_within_a_class_every_example_is_equally_likely():
    capacity, repeats = 12, 2000
    labels = ([0] * 9 + [1]) * 2 + [0, 1] * 20  # 38 of class 0 and 22 of class 1
    kept = torch.zeros(len(labels))
    for seed in range(repeats):
        buffer = balanced(labels, capacity, seed)
        assert counts(buffer) == {0: 6, 1: 6}
        kept[numbers(buffer)] += 1
    for label in (0, 1):
        of_class = kept[torch.tensor(labels) == label]
        # Each count is binomial; with fixed seeds this either holds or the algorithm is wrong.
        low, high = binom.ppf([1e-6, 1 - 1e-6], repeats, 6 / len(of_class))
        assert low <= of_class.min()
        assert of_class.max() <= high
        early, late = of_class[: len(of_class) // 2].sum(), of_class[len(of_class) // 2 :].sum()
        assert chisquare([int(early), int(late)]).pvalue > 1e-4


# Herding


def test_herded_by_hand():
    # At length 1: (1, 0), (0, 1), (0.8, 0.6); their mean is (0.6, 0.533).
    # First: squared distances 0.16 + 0.284, 0.36 + 0.218 and 0.04 + 0.004: the third.
    # Then, as the mean of two: with the first (0.9, 0.3), 0.09 + 0.054; with the second (0.4, 0.8), 0.04 + 0.071.
    # So the second, though alone it is the farthest. Not brought to length 1, (3, 0) would be the first to be chosen.
    features = torch.tensor([[3.0, 0.0], [0.0, 2.0], [4.0, 3.0]])
    assert herded(features, 3).tolist() == [2, 1, 0]
    assert herded(features, 2).tolist() == [2, 1]
    assert herded(features, 5).tolist() == [2, 1, 0]
    assert herded(features, 0).tolist() == []


def test_herded_by_hand_in_one_dimension():
    # At length 1: 1, -1, 1, 1, with mean 0.5. 1 is nearest, the first of equals. Then 1 beside it is at 0.5, -1 too:
    # (1 - 1) / 2 = 0. Of equals the first in order, -1. Then (0 + 1) / 3 with either that is left.
    assert herded(torch.tensor([[5.0], [-2.0], [7.0], [1.0]]), 4).tolist() == [0, 1, 2, 3]
    # Three of -1 and one of 1, mean -0.5: -1, then 1 and -1 are equally far again and 0 is the first.
    assert herded(torch.tensor([[5.0], [-2.0], [-7.0], [-1.0]]), 3).tolist() == [1, 0, 2]


def algorithm_4(features: np.ndarray, count: int) -> list[int]:
    """Rebuffi et al. (2017), algorithm 4, on features of length 1."""
    phi = [row / np.linalg.norm(row) for row in features.astype(np.float64)]
    mu = sum(phi) / len(phi)
    chosen: list[int] = []
    for k in range(1, count + 1):
        left = [i for i in range(len(phi)) if i not in chosen]
        chosen.append(min(left, key=lambda i: np.linalg.norm(mu - (phi[i] + sum(phi[j] for j in chosen)) / k)))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_herded_is_the_published_algorithm(seed):
    features = torch.randn(40, 6, generator=seeded(seed)) * torch.linspace(0.1, 5, 40)[:, None]
    assert herded(features, 15).tolist() == algorithm_4(features.numpy(), 15)


def on_circle(angle: float) -> list[int]:
    """A direction in two bytes, whatever its length."""
    return [round(128 + 120 * np.cos(angle)), round(128 + 120 * np.sin(angle))]


def directions(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).float() - 128


def spread(labels: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples that differ, each a direction drawn at random within its class's quarter of the circle."""
    turn = torch.rand(len(labels), generator=seeded(seed)) * 1.5
    pixels = [on_circle(label * 1.57 + part) for label, part in zip(labels, turn.tolist(), strict=True)]
    return torch.tensor(pixels, dtype=torch.uint8).reshape(-1, 2, 1, 1), torch.tensor(labels)


def by_rank(buffer: Buffer, label: int) -> list[list[int]]:
    """The pixels of a class's examples by their ranks, which are 0 .. n - 1."""
    slots = (buffer.y == label).nonzero().squeeze(1)
    rank = buffer.fields["rank"][slots]
    assert rank.sort().values.tolist() == list(range(len(slots)))
    return buffer.x[slots[rank.argsort()]].flatten(1).tolist()


def expected(x: torch.Tensor, count: int) -> list[list[int]]:
    chosen = algorithm_4(directions(x).numpy(), min(count, len(x)))
    return x[chosen].flatten(1).tolist()


def test_every_class_has_its_share_herded():
    buffer = Buffer(10, (2, 1, 1), Herding())
    x, y = spread([2] * 9 + [0] * 12 + [1] * 7)
    buffer.add(x, y, seeded(), directions)
    assert counts(buffer) == {0: 4, 1: 3, 2: 3}
    for label, share in ((0, 4), (1, 3), (2, 3)):
        assert by_rank(buffer, label) == expected(x[y == label], share)


def test_a_class_with_fewer_examples_than_its_share_keeps_them_all():
    buffer = Buffer(10, (2, 1, 1), Herding())
    buffer.add(*spread([0] * 9 + [1] * 2), seeded(), directions)
    assert counts(buffer) == {0: 5, 1: 2}


def test_a_class_that_was_there_keeps_the_first_it_had_chosen():
    asked: list[int] = []

    def features(x):
        asked.append(len(x))
        return directions(x)

    buffer = Buffer(10, (2, 1, 1), Herding())
    buffer.add(*spread([1] * 20 + [3] * 20), seeded(), features)
    first = {label: by_rank(buffer, label) for label in (1, 3)}
    assert [len(first[label]) for label in (1, 3)] == [5, 5]
    for new, shares in ((0, {0: 4, 1: 3, 3: 3}), (2, {0: 3, 1: 3, 2: 2, 3: 2})):
        asked.clear()
        x, y = spread([new] * 20, seed=new)
        buffer.add(x, y, seeded(), features)
        assert asked == [20]  # nobody looks at the old ones again
        assert counts(buffer) == shares
        first[new] = expected(x, 5)
        for label, share in shares.items():
            assert by_rank(buffer, label) == first[label][:share]


def test_a_class_that_arrives_again_is_herded_over_old_and_new_together():
    buffer = Buffer(6, (2, 1, 1), Herding())
    buffer.add(*spread([0] * 10 + [1] * 10), seeded(), directions)
    old = torch.tensor(by_rank(buffer, 0), dtype=torch.uint8).reshape(-1, 2, 1, 1)
    other = by_rank(buffer, 1)
    x, y = spread([0] * 5, seed=8)
    buffer.add(x, y, seeded(), directions)
    together = by_rank(buffer, 0)
    assert together == expected(torch.cat([old, x]), 3)
    assert any(pixels in old.flatten(1).tolist() for pixels in together)
    assert any(pixels in x.flatten(1).tolist() for pixels in together)
    assert by_rank(buffer, 1) == other


def test_herding_draws_no_random_numbers():
    generator = seeded(5)
    before = generator.get_state()
    Buffer(6, (2, 1, 1), Herding()).add(*spread([0] * 10), generator, directions)
    assert torch.equal(generator.get_state(), before)


def test_herding_without_features_says_what_is_missing():
    with pytest.raises(ValueError, match="chooses by features"):
        Buffer(6, (2, 1, 1), Herding()).add(*spread([0] * 10), seeded())
