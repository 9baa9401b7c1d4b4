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
from tfcsr.buffer.policies.gradient import GradientMatching, gradient_matched
from tfcsr.buffer.policies.herding import Herding, herded
from tfcsr.buffer.policies.ipm import IterativeProjectionMatching, _leading, projected


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


def balanced(labels: list[int], capacity: int, seed: int = 0, cuts: tuple[int, ...] = (), most: int = 0) -> Buffer:
    buffer, generator = Buffer(capacity, (2, 1, 1), ClassBalancedReservoir(most)), seeded(seed)
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


def test_a_class_never_has_more_than_its_most():
    assert counts(balanced(UNEVEN, 100, most=20)) == {0: 20, 1: 20, 2: 10}
    # Where that is more than fits, it changes nothing.
    assert numbers(balanced(UNEVEN, 30, most=30)) == numbers(balanced(UNEVEN, 30))
    # A full buffer gives way to a class that has less.
    assert counts(balanced(UNEVEN, 30, most=12)) == {0: 10, 1: 10, 2: 10}


def test_what_a_class_keeps_of_its_most_is_a_fair_sample():
    kept = [n for seed in range(200) for n in numbers(balanced([0] * 40, 100, seed, most=10))]
    assert len(kept) == 2000
    # 50 each is expected, with a standard deviation of 6.
    assert all(25 < kept.count(n) < 75 for n in range(40))


@pytest.mark.parametrize("cuts", [(1,), (7, 300), (1000, 1030)])
def test_the_most_of_a_class_does_not_depend_on_how_the_stream_was_cut(cuts):
    assert numbers(balanced(UNEVEN, 40, 3, cuts, most=15)) == numbers(balanced(UNEVEN, 40, 3, most=15))


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


# All that choose within a class

RANKED = pytest.mark.parametrize("policy", [Herding, IterativeProjectionMatching, GradientMatching])


def answers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As of a network of four outputs that are linear in the direction."""
    features = directions(x)
    given = (features @ torch.tensor([[1.0, 0.0, -1.0, 0.3], [0.0, 1.0, 0.4, -1.0]]) / 100).softmax(dim=1)
    return given - torch.nn.functional.one_hot(y, 4), features


def chosen_of(policy, x: torch.Tensor, label: int, count: int) -> list[list[int]]:
    """The pixels of those that the slow algorithm chooses."""
    count = min(count, len(x))
    errors, features = (part.numpy() for part in answers(x, torch.full((len(x),), label)))
    slow = {
        Herding: lambda: algorithm_4(features, count),
        IterativeProjectionMatching: lambda: algorithm_1_of_ipm(features, count),
        GradientMatching: lambda: greedy_over_outer_products(errors, features, count),
    }
    return x[slow[policy]()].flatten(1).tolist()


@RANKED
def test_every_class_has_the_same_share_or_one_more(policy):
    buffer = Buffer(10, (2, 1, 1), policy())
    x, y = spread([2] * 9 + [0] * 12 + [1] * 7)
    buffer.add(x, y, seeded(), directions, answers)
    assert counts(buffer) == {0: 4, 1: 3, 2: 3}
    for label, share in ((0, 4), (1, 3), (2, 3)):
        assert by_rank(buffer, label) == chosen_of(policy, x[y == label], label, share)


@RANKED
def test_a_small_class_keeps_all_it_has(policy):
    buffer = Buffer(10, (2, 1, 1), policy())
    buffer.add(*spread([0] * 9 + [1] * 2), seeded(), directions, answers)
    assert counts(buffer) == {0: 5, 1: 2}


@RANKED
def test_more_classes_than_slots(policy):
    buffer = Buffer(2, (2, 1, 1), policy())
    buffer.add(*spread([0] * 3 + [1] * 3 + [2] * 3), seeded(), directions, answers)
    assert counts(buffer) == {0: 1, 1: 1}


@RANKED
def test_only_a_class_that_arrives_is_chosen_from(policy):
    asked: list[int] = []

    def features(x):
        asked.append(len(x))
        return directions(x)

    def gradients(x, y):
        asked.append(len(x))
        return answers(x, y)

    buffer = Buffer(10, (2, 1, 1), policy())
    buffer.add(*spread([1] * 20 + [3] * 20), seeded(), features, gradients)
    first = {label: by_rank(buffer, label) for label in (1, 3)}
    for new, shares in ((0, {0: 4, 1: 3, 3: 3}), (2, {0: 3, 1: 3, 2: 2, 3: 2})):
        asked.clear()
        x, y = spread([new] * 20, seed=new)
        buffer.add(x, y, seeded(), features, gradients)
        assert asked == [20]
        assert counts(buffer) == shares
        first[new] = chosen_of(policy, x, new, 5)
        for label, share in shares.items():
            assert by_rank(buffer, label) == first[label][:share]


@RANKED
def test_what_arrives_again_is_chosen_from_old_and_new_together(policy):
    buffer = Buffer(6, (2, 1, 1), policy())
    buffer.add(*spread([0] * 10 + [1] * 10), seeded(), directions, answers)
    old = torch.tensor(by_rank(buffer, 1), dtype=torch.uint8).reshape(-1, 2, 1, 1)
    x, y = spread([1] * 5, seed=8)
    buffer.add(x, y, seeded(), directions, answers)
    assert by_rank(buffer, 1) == chosen_of(policy, torch.cat([old, x]), 1, 3)


@RANKED
def test_no_random_numbers_are_drawn(policy):
    generator = seeded(5)
    before, own = generator.get_state(), torch.get_rng_state()
    Buffer(6, (2, 1, 1), policy()).add(*spread([0] * 10), generator, directions, answers)
    assert torch.equal(generator.get_state(), before)
    assert torch.equal(torch.get_rng_state(), own)


@pytest.mark.parametrize(
    ("policy", "by"), [(IterativeProjectionMatching, "chooses by features"), (GradientMatching, "chooses by gradients")]
)
def test_without_what_it_goes_by_it_says_what_is_missing(policy, by):
    with pytest.raises(ValueError, match=by):
        Buffer(6, (2, 1, 1), policy()).add(*spread([0] * 10), seeded())


@pytest.mark.parametrize("policy", ["ipm", "gradient"])
def test_a_run_with_it_is_the_same_twice_and_not_the_reservoirs(policy):
    one, other, usual = (testing.trained(method="er", epochs=2, policy=p) for p in (policy, policy, "reservoir"))
    assert testing.outcome(one) == testing.outcome(other)
    assert one.weights_sha256() != usual.weights_sha256()
    assert counts(one.learner.buffer) == dict.fromkeys(range(6), 4)


# Iterative Projection and Matching


def algorithm_1_of_ipm(features: np.ndarray, count: int) -> list[int]:
    """Zaeemzadeh et al. (2019), algorithm 1, on features of length 1; begun again with the others at rank 0."""
    whole = features.astype(np.float64) / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    chosen: list[int] = []
    rest = whole.copy()
    while len(chosen) < count:
        if np.linalg.norm(rest, axis=1).max() < 1e-6:
            rest = whole.copy()
            rest[chosen] = 0
        v = np.linalg.svd(rest)[2][0]
        best = max((i for i in range(len(rest)) if i not in chosen), key=lambda i: abs(rest[i] @ v))
        chosen.append(best)
        u = rest[best] / np.linalg.norm(rest[best])
        rest = rest @ (np.eye(len(u)) - np.outer(u, u))
    return chosen


def test_projected_by_hand():
    # Three lie along the first axis, two along the second, one along the third: the most frequent comes first, by its
    # first example. Nothing is left then, and it begins again with 2, 4 and 5, and then with 5.
    features = torch.tensor([[0.0, 5, 0], [-3, 0, 0], [2, 0, 0], [0, 0, 7], [0, 9, 0], [8, 0, 0]])
    assert projected(features, 6).tolist() == [1, 0, 3, 2, 4, 5]
    assert projected(features, 9).tolist() == [1, 0, 3, 2, 4, 5]
    assert projected(features, 2).tolist() == [1, 0]
    assert projected(features, 0).tolist() == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("turned", [False, True])
def test_each_direction_comes_once_before_any_comes_twice(seed, turned):
    generator, k, each = seeded(seed), 5, [3, 3, 4, 6, 3]  # some as frequent as others: then all are leading
    axis = torch.tensor([a for a in range(k) for _ in range(each[a])])[torch.randperm(sum(each), generator=generator)]
    features = torch.nn.functional.one_hot(axis, 8) * (torch.randn(len(axis), 1, generator=generator) * 3)
    if turned:
        features = features @ torch.linalg.qr(torch.randn(8, 8, generator=generator)).Q
    chosen = projected(features, 15)
    assert len(set(chosen.tolist())) == 15
    for turn in chosen.split(k):
        assert sorted(axis[turn].tolist()) == list(range(k))


@pytest.mark.parametrize("seed", range(4))
def test_the_length_and_sign_of_a_row_do_not_count(seed):
    features = torch.randn(60, 9, generator=seeded(seed))
    scale = 2.0 ** torch.randint(-20, 20, (60, 1), generator=seeded(seed)) * (-1) ** torch.arange(60)[:, None]
    chosen = projected(features, 40)
    assert projected(features * scale, 40).tolist() == chosen.tolist()
    assert (
        projected(features.double() * (torch.rand(60, 1, generator=seeded(seed)) + 0.1), 40).tolist() == chosen.tolist()
    )


@pytest.mark.parametrize(
    ("rows", "size", "count"), [(40, 6, 15), (40, 6, 40), (25, 60, 20), (25, 60, 25), (90, 40, 35)]
)
@pytest.mark.parametrize("seed", range(3))
def test_projected_is_the_published_algorithm(rows, size, count, seed):
    features = torch.randn(rows, size, generator=seeded(seed)).relu() + torch.rand(size, generator=seeded(seed + 50))
    chosen = projected(features, count).tolist()
    assert chosen == algorithm_1_of_ipm(features.numpy(), count)
    assert projected(features, count).tolist() == chosen


def test_of_rows_that_are_the_same_the_first_is_chosen():
    features = torch.randn(7, 16, generator=seeded(3))
    assert projected(features.repeat(9, 1), 7).tolist() == projected(features, 7).tolist()


def test_rows_without_a_direction_come_last():
    features = torch.tensor([[0.0, 0], [1, 1], [torch.nan, 1], [0, 0], [2, 1], [torch.inf, 1]])
    chosen = projected(features, 6).tolist()
    assert set(chosen[:2]) == {1, 4}
    assert chosen[2:] == [0, 2, 3, 5]
    assert projected(torch.zeros(4, 3), 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("values", [[1.0], [0.0, 3.0], [2.0] * 6, [5.0, 4.999, 1.0] + [0.1] * 30, [1e-9] + [0.0] * 40])
def test_leading_is_an_eigenvector_of_the_largest_eigenvalue(values):
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(len(values), len(values)))).Q
    gram = turn.T @ np.diag(values) @ turn
    v = _leading(gram)
    assert np.linalg.norm(v) == pytest.approx(1, abs=1e-12)
    assert np.linalg.norm(gram @ v - max(values) * v) <= 1e-6 * max(values)


# Matching gradients


def greedy_over_outer_products(errors: np.ndarray, features: np.ndarray, count: int) -> list[int]:
    """Herding of the gradients themselves, not brought to length 1."""
    gradients = [np.outer(e, f) for e, f in zip(errors.astype(np.float64), features.astype(np.float64), strict=True)]
    mean = sum(gradients) / len(gradients)
    chosen: list[int] = []
    for k in range(1, count + 1):
        left = [i for i in range(len(gradients)) if i not in chosen]
        total = sum((gradients[j] for j in chosen), np.zeros_like(mean))
        chosen.append(min(left, key=lambda i: np.linalg.norm(mean - (gradients[i] + total) / k)))
    return chosen


def test_gradients_matched_by_hand():
    # Gradients of one class and one feature: -1, -2, -6, with mean -3. First -2. Then -2 and -6 are at -4, -2 and -1 at
    # -1.5: the former. Features alone, 2, 4 and 6 with mean 4, would have the second first as well, but then any.
    errors, features = torch.tensor([[-0.5], [-0.5], [-1.0]]), torch.tensor([[2.0], [4.0], [6.0]])
    assert gradient_matched(errors, features, 3).tolist() == [1, 2, 0]
    assert gradient_matched(errors, features, 5).tolist() == [1, 2, 0]
    assert gradient_matched(errors, features, 1).tolist() == [1]
    assert gradient_matched(errors, features, 0).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_gradient_matched_is_greedy_over_outer_products(seed):
    generator = seeded(seed)
    errors = (2 * torch.randn(50, 6, generator=generator)).softmax(dim=1)
    errors[:, 2] -= 1
    features = torch.randn(50, 9, generator=generator).relu()
    assert gradient_matched(errors, features, 30).tolist() == greedy_over_outer_products(
        errors.numpy(), features.numpy(), 30
    )


def test_examples_that_are_known_well_are_chosen_by_their_gradients_still():
    errors = torch.randn(30, 4, generator=seeded(1))
    features = torch.randn(30, 5, generator=seeded(2))
    assert gradient_matched(errors * 1e-25, features, 12).tolist() == gradient_matched(errors, features, 12).tolist()


@pytest.mark.parametrize("model", ["tiny-linear", "tiny-bn", "tiny-dropout"])
def test_a_learners_gradients_are_those_of_its_last_layer(model):
    learner = testing.make_training(model=model).learner
    x = torch.randint(0, 256, (5, *learner.buffer.x.shape[1:]), dtype=torch.uint8, generator=seeded())
    y = torch.tensor([0, 5, 2, 2, 1])
    errors, features = learner.gradients(x, y)
    model = learner.model.eval()
    for i in range(5):
        loss = torch.nn.functional.cross_entropy(model(learner.views.normalised(x[i : i + 1])), y[i : i + 1])
        (true,) = torch.autograd.grad(loss, model[-1].weight)
        assert torch.allclose(torch.outer(errors[i].float(), features[i]), true, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: torch.cuda.is_available() is false")
@RANKED
def test_on_a_gpu_the_same_are_chosen(policy):
    def taken(device: str, examples: str) -> list[list[list[int]]]:
        buffer = Buffer(24, (2, 1, 1), policy(), device)
        x, y = spread([0] * 40 + [1] * 40)
        buffer.add(x.to(examples), y.to(device), seeded(), directions, gradients)
        return [by_rank(buffer, label) for label in (0, 1)]

    def gradients(x, y):
        assert x.device == y.device
        errors, features = answers(x.cpu(), y.cpu())
        return errors.to(x.device), features.to(x.device)

    assert taken("cuda", "cuda") == taken("cuda", "cpu") == taken("cpu", "cpu")


class OneByOne(ClassBalancedReservoir):
    """The same as it is told: every list sorted, every class counted, for each example anew."""

    def keep(self, candidates, generator):
        held, labels = candidates.held, candidates.y.tolist()
        slots = list(range(held))
        of_class: dict[int, list[int]] = {}
        for slot in slots:
            of_class.setdefault(labels[slot], []).append(slot)
        drawn = torch.rand((len(labels) - held, 2), dtype=torch.float64, generator=generator).tolist()
        for number, (first, second) in enumerate(drawn, start=held):
            label = labels[number]
            self.seen[label] = self.seen.get(label, 0) + 1
            own = of_class.setdefault(label, [])
            if len(slots) < candidates.capacity:
                own.append(len(slots))
                slots.append(number)
                continue
            largest = max(map(len, of_class.values()))
            self.full += [c for c, kept in of_class.items() if len(kept) == largest and c not in self.full]
            if label not in self.full:
                victims = sorted(of_class[min(c for c, kept in of_class.items() if len(kept) == largest)])
                slot = victims[int(first * largest)]
                of_class[labels[slots[slot]]].remove(slot)
                own.append(slot)
                slots[slot] = number
            elif first * self.seen[label] < len(own):
                slots[sorted(own)[int(second * len(own))]] = number
        return torch.tensor(slots, dtype=torch.int64)


@given(
    capacity=st.integers(1, 40),
    block=st.sampled_from([1, 2, 5, 2048]),
    stream=st.lists(st.tuples(st.lists(st.integers(0, 6), max_size=60), st.booleans()), max_size=6),
)
def test_class_balanced_is_quick_and_the_same(capacity, block, stream):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfcsr.buffer.slots.BLOCK", block)
        buffers = [Buffer(capacity, (2, 1, 1), policy()) for policy in (OneByOne, ClassBalancedReservoir)]
        for number, (labels, forget) in enumerate(stream):
            for buffer in buffers:
                buffer.add(*numbered(labels), seeded(number))
                if forget and labels:
                    buffer.remove(labels[0])
            one, other = (vars(buffer.policy) | buffer.fields for buffer in buffers)
            assert all(one[name] == other[name] for name in ("seen", "full"))
            assert all(torch.equal(one[name], other[name]) for name in ("x", "y"))
