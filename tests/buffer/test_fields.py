"""What is stored beside an example stays with it, wherever the policy moves it, and counts."""

import copy
from typing import ClassVar

import pytest
import torch

from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies import POLICIES
from tfcsr.buffer.policies.base import Field, Policy
from tfcsr.buffer.policies.class_balanced import ClassBalancedReservoir
from tfcsr.buffer.policies.herding import Herding
from tfcsr.errors import SpecError

BESIDE = {"logits": Field((3,), torch.float32), "note": Field((2, 2), torch.int16, -7)}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stream(start: int, stop: int, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples that carry their own number, from 1, in a byte, grouped by class."""
    number = torch.arange(start, stop)
    return (number + 1).to(torch.uint8).reshape(-1, 1, 1, 1), number * classes // 200


def features(x: torch.Tensor) -> torch.Tensor:
    number = x.flatten(1).float()
    return torch.cat([number, (17 * number) % 23], dim=1)


def gradients(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat([features(x), torch.ones(len(x), 1)], dim=1).softmax(dim=1), features(x)


def noted(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Values from which one can tell whose they are."""
    number = x.flatten(1).long()
    return {
        "logits": number * torch.tensor([1.0, 10.0, 0.5]),
        "note": (number * 100 + torch.arange(4)).reshape(-1, 2, 2),
    }


def add(buffer: Buffer, start: int, stop: int, seed: int = 0) -> list[int]:
    """Let them pass and write what belongs beside those that stay; the slots that were told."""
    x, y = stream(start, stop)
    changes = buffer.add(x, y, seeded(seed), features, gradients)
    slots, rows = changes.arrived()
    buffer.write(slots, **noted(x[rows]))
    return sorted(changes.slots.tolist())


def require_own_notes(buffer: Buffer) -> None:
    size = len(buffer)
    beside = buffer.stored(torch.arange(buffer.capacity))
    for name, value in noted(buffer.x[:size]).items():
        assert torch.equal(beside[name][:size], value.to(beside[name].dtype)), name
    assert bool((beside["logits"][size:] == 0).all())
    assert bool((beside["note"][size:] == -7).all())
    assert bool((buffer.y[size:] == -1).all())
    assert bool((buffer.x[size:] == 0).all())


@pytest.mark.parametrize(
    ("policy", "more"), [("reservoir", 0), ("class-balanced", 0), ("herding", 4), ("ipm", 4), ("gradient", 4)]
)
def test_every_byte_counts(policy, more):
    # An image of 3 bytes, a label of 8, 3 logits of 4 and 4 numbers of 2; a rank within the class is 4 more.
    buffer = Buffer(10, (3, 1, 1), POLICIES.get(policy)(), beside=BESIDE)
    assert buffer.nbytes == 10 * (3 + 8 + 12 + 8 + more)
    assert Buffer(10, (3, 1, 1), POLICIES.get(policy)()).nbytes == 10 * (3 + 8 + more)


def test_what_is_written_is_what_is_stored():
    buffer = Buffer(8, (1, 1, 1), beside=BESIDE)
    buffer.add(*stream(0, 5), seeded())
    assert bool((buffer.fields["note"] == -7).all())  # until somebody writes
    buffer.write(torch.tensor([3, 1]), note=torch.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
    found = buffer.stored(torch.tensor([1, 2, 3, 1]))
    assert set(found) == {"logits", "note"}
    assert found["note"].dtype == torch.int16
    assert found["note"].flatten(1).tolist() == [[5, 6, 7, 8], [-7] * 4, [1, 2, 3, 4], [5, 6, 7, 8]]
    assert bool((found["logits"] == 0).all())


@pytest.mark.parametrize("policy", POLICIES.names())
def test_fields_move_along_with_their_example(policy):
    buffer = Buffer(13, (1, 1, 1), POLICIES.get(policy)(), beside=BESIDE)
    for start, stop in ((0, 5), (5, 45), (45, 60), (60, 60), (60, 140), (140, 200)):
        add(buffer, start, stop, seed=start)
        require_own_notes(buffer)
    assert len(buffer.classes()) == 4


@pytest.mark.parametrize("policy", POLICIES.names())
def test_exactly_the_slots_that_changed_are_told(policy):
    buffer = Buffer(13, (1, 1, 1), POLICIES.get(policy)(), beside=BESIDE)
    told = 0
    for start, stop in ((0, 5), (5, 45), (45, 60), (60, 60), (60, 140), (140, 200)):
        before = buffer.x.flatten().clone()
        slots = add(buffer, start, stop, seed=start)
        changed = (before != buffer.x.flatten())[: len(buffer)]
        assert slots == changed.nonzero().flatten().tolist()
        told += len(slots)
    assert 13 < told < 5 * 13


def test_rows_say_where_an_example_came_from():
    buffer = Buffer(4, (1, 1, 1), Listed([[0, 1, 2, 3], [4, 0, 2]]))
    first = buffer.add(*stream(0, 4), seeded())
    assert (first.slots.tolist(), first.rows.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3])
    # Slot 0 has the one that arrives, slot 1 what was in slot 0, slot 2 what it had; slot 3 is empty.
    second = buffer.add(*stream(4, 5), seeded())
    assert (second.slots.tolist(), second.rows.tolist()) == ([0, 1], [0, -1])
    assert [part.tolist() for part in second.arrived()] == [[0], [0]]
    assert buffer.x.flatten().tolist() == [5, 1, 3, 0]
    assert buffer.y.tolist() == [0, 0, 0, -1]
    assert (len(buffer), buffer.seen) == (3, 5)


class Listed(Policy):
    """Keeps what it was told to keep."""

    def __init__(self, answers: list[list[int]]) -> None:
        self.answers = answers

    def keep(self, candidates, generator):
        return torch.tensor(self.answers.pop(0), dtype=torch.int64)


def test_slots_may_change_places():
    buffer = Buffer(4, (1, 1, 1), Listed([[0, 1, 2, 3], [3, 0, 2, 1]]), beside=BESIDE)
    add(buffer, 0, 4)
    assert add(buffer, 4, 5) == [0, 1, 3]
    assert buffer.x.flatten().tolist() == [4, 1, 3, 2]
    require_own_notes(buffer)


def test_emptied_slots_hold_the_empty_value_again():
    buffer = Buffer(4, (1, 1, 1), Listed([[0, 1, 2, 3], [2], []]), beside=BESIDE)
    for start, size in ((0, 4), (4, 1), (5, 0)):
        add(buffer, start, start + 4)
        assert len(buffer) == size
        require_own_notes(buffer)
    assert not len(buffer.classes())


def test_an_example_that_arrives_has_no_notes_of_the_one_it_displaces():
    buffer = Buffer(2, (1, 1, 1), Listed([[0, 1], [0, 2]]), beside=BESIDE)
    add(buffer, 0, 2)
    kept = buffer.stored(torch.tensor([0]))
    buffer.add(*stream(2, 3), seeded())
    assert all(torch.equal(value, kept[name]) for name, value in buffer.stored(torch.tensor([0])).items())
    assert buffer.stored(torch.tensor([1]))["logits"].tolist() == [[0.0, 0.0, 0.0]]
    assert buffer.stored(torch.tensor([1]))["note"].flatten().tolist() == [-7] * 4


def test_a_herded_class_that_is_reduced_and_moved_keeps_its_notes():
    buffer = Buffer(10, (1, 1, 1), Herding(), beside=BESIDE)
    add(buffer, 100, 200)  # classes 2 and 3, 5 of each
    add(buffer, 0, 50)  # class 0 comes before them
    assert buffer.y.tolist() == [0] * 4 + [2] * 3 + [3] * 3
    require_own_notes(buffer)
    assert buffer.fields["rank"].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2]


def test_a_field_that_is_not_there_cannot_be_written():
    buffer = Buffer(4, (1, 1, 1), beside=BESIDE)
    add(buffer, 0, 4)
    with pytest.raises(SpecError, match=r"no field 'logit': it has x, y, logits, note"):
        buffer.write(torch.tensor([0]), logit=torch.zeros(1, 3))


@pytest.mark.parametrize("name", ["x", "y", "size", "seen", "policy"])
def test_a_name_that_is_taken_is_refused(name):
    with pytest.raises(SpecError, match=f"called '{name}' already"):
        Buffer(4, (1, 1, 1), beside={name: Field((), torch.float32)})


def test_a_name_that_the_policy_has_taken_is_refused():
    with pytest.raises(SpecError, match="called 'rank' already"):
        Buffer(4, (1, 1, 1), Herding(), beside={"rank": Field((), torch.float32)})


@pytest.mark.parametrize("policy", POLICIES.names())
def test_state_round_trip(policy):
    """What goes on afterwards does not reach the state that was taken, nor the buffer that took it back."""
    buffer, other = (Buffer(13, (1, 1, 1), POLICIES.get(policy)(), beside=BESIDE) for _ in range(2))
    add(buffer, 0, 45)
    add(buffer, 45, 120)
    other.load_state_dict(buffer.state_dict())
    for each in (buffer, other):
        add(each, 120, 160, seed=3)
        add(each, 160, 200, seed=4)
    for name, field in buffer.fields.items():
        assert torch.equal(field, other.fields[name]), name
    assert (buffer.seen, len(buffer)) == (other.seen, len(other)) == (200, len(other))
    require_own_notes(other)


@pytest.mark.parametrize("policy", POLICIES.names())
def test_a_state_is_not_changed_by_what_comes_after(policy):
    buffer = Buffer(13, (1, 1, 1), POLICIES.get(policy)(), beside=BESIDE)
    add(buffer, 0, 120)
    state = buffer.state_dict()
    before = copy.deepcopy(state)
    add(buffer, 120, 200)
    other = Buffer(13, (1, 1, 1), POLICIES.get(policy)(), beside=BESIDE)
    other.load_state_dict(state)
    add(other, 120, 200)
    assert state["policy"] == before["policy"]
    assert all(torch.equal(state[name], before[name]) for name in buffer.fields)


def test_the_policys_own_memory_is_part_of_the_state():
    buffer = Buffer(13, (1, 1, 1), ClassBalancedReservoir(), beside=BESIDE)
    add(buffer, 0, 120)
    seen = {0: 50, 1: 50, 2: 20}
    assert buffer.state_dict()["policy"] == {"most_per_class": 0, "seen": seen, "full": buffer.policy.full}
    other = Buffer(13, (1, 1, 1), ClassBalancedReservoir(), beside=BESIDE)
    other.load_state_dict(copy.deepcopy(buffer.state_dict()))
    assert other.policy.seen == {0: 50, 1: 50, 2: 20}
    assert set(other.policy.full) == set(buffer.policy.full) > set()


def test_a_state_of_the_version_without_policies_loads():
    buffer, other = Buffer(8, (1, 1, 1)), Buffer(8, (1, 1, 1))
    buffer.add(*stream(0, 50), seeded())
    state = buffer.state_dict()
    del state["policy"]
    other.load_state_dict(state)
    for each in (buffer, other):
        each.add(*stream(50, 100), seeded(1))
    assert torch.equal(buffer.x, other.x)
    assert buffer.seen == other.seen == 100


def test_a_state_with_other_fields_is_refused():
    state = Buffer(8, (1, 1, 1), beside=BESIDE).state_dict()
    state["logits"] = state["logits"][:, :2]
    with pytest.raises(ValueError, match=r"logits \(8, 2\), expected \(8, 3\)"):
        Buffer(8, (1, 1, 1), beside=BESIDE).load_state_dict(state)


class Stamped(Policy):
    """Keeps the newest, and stores when each came."""

    fields: ClassVar = {"when": Field((), torch.int64, -1)}

    def __init__(self) -> None:
        self.adds = 0

    def keep(self, candidates, generator):
        self.adds += 1
        return torch.arange(len(candidates.y))[-candidates.capacity :]

    def beside(self, kept):
        return {"when": torch.full((len(kept),), self.adds)}


def test_a_policy_may_have_fields_and_memory_of_its_own():
    buffer, other = (Buffer(3, (1, 1, 1), Stamped()) for _ in range(2))
    told = [len(buffer.add(*stream(start, start + 2), seeded()).slots) for start in (0, 2)]
    assert told == [2, 3]
    assert buffer.x.flatten().tolist() == [2, 3, 4]
    assert buffer.fields["when"].tolist() == [2, 2, 2]
    other.load_state_dict(buffer.state_dict())
    assert other.policy.adds == 2
