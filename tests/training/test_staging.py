"""Examples that lie in a file come to the steps block by block, and nothing is different from reading them in place."""

import functools
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.conftest import make_training

import tfcsr
from tfcsr.data.tasks import Examples
from tfcsr.testing import Recorder, captured, outcome
from tfcsr.training import staging
from tfcsr.training.batches import Batches
from tfcsr.training.staging import rows_in_block, staged

EXAMPLE = torch.zeros(1, 4, 4, dtype=torch.uint8).nbytes
SIZES = {"count": st.integers(1, 9), "size": st.integers(1, 7), "block": st.integers(0, 40), "more": st.booleans()}


class Pretended:
    """A file that is none: it reads from memory, and tells when it does."""

    def __init__(self, x, read=lambda: None):
        self.x, self.read, self.released = x, read, 0

    def gather(self, rows, out):
        torch.index_select(self.x, 0, rows, out=out)
        self.read()

    def release(self):
        self.released += 1


def numbered(count, read=lambda: None, in_file=True):
    """Examples that carry their own number, and labels that follow from it."""
    x = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 1, 4, 4).contiguous()
    return Examples(x, torch.arange(count) * 7 % 5, Pretended(x, read) if in_file else None)


def planned(count, size, more=True):
    """So many batches of a size, in an order of its own; with and without crops and rates."""
    draw = torch.Generator().manual_seed(count * 10 + size)
    new = torch.randperm(count * size, generator=draw).reshape(count, size)
    replay = torch.randint(0, 9, (count, 3), generator=draw)
    crops = torch.randint(0, 3, (count, size, 3), generator=draw) if more else None
    patches = torch.randint(0, 4, (count, 4), generator=draw) if more else None
    return Batches(new, replay, crops, crops, patches, torch.arange(count).double() if more else None)


@pytest.fixture
def block_of(monkeypatch):
    return lambda examples: monkeypatch.setattr(staging, "BLOCK_BYTES", examples * EXAMPLE)


def test_what_can_be_read_in_place_is_not_touched():
    data, batches = numbered(6, in_file=False), planned(3, 2)
    ((same, whole),) = staged(data, batches)
    assert same is data
    assert whole is batches


@given(**SIZES)
def test_the_batches_are_those_of_reading_in_place(count, size, block, more):
    """Whatever the sizes: one batch, blocks of one batch, a block smaller than a batch, a last one that is not full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BLOCK_BYTES", block * EXAMPLE)
        data, batches = numbered(count * size), planned(count, size, more)
        seen = 0
        for part, rows in staged(data, batches):
            here = slice(seen, seen + len(rows))
            expected = batches.each(lambda t, here=here: t[here])
            assert len(part) == rows.new.numel() <= max(block, size)
            assert torch.equal(part.x[rows.new], data.x[expected.new])
            assert torch.equal(part.y[rows.new], data.y[expected.new])
            for mine, theirs in zip(rows.tensors()[1:], expected.tensors()[1:], strict=True):
                assert (mine is None and theirs is None) or torch.equal(mine, theirs)
            assert not part.apart
            seen += len(rows)
        assert seen == count


def test_no_batches_are_no_blocks():
    assert list(staged(numbered(4), planned(2, 2).each(lambda t: t[:0]))) == []


def test_a_block_is_as_large_as_it_may_be(block_of):
    block_of(7)
    assert rows_in_block(torch.zeros(1, 4, 4, dtype=torch.uint8)) == 7
    assert [len(part) for part, _ in staged(numbered(14), planned(7, 2))] == [6, 6, 2]
    block_of(0)
    assert rows_in_block(torch.zeros(1, 4, 4, dtype=torch.uint8)) == 1


@pytest.mark.parametrize("slow", ["reading", "steps"])
def test_a_block_stays_as_it_is_while_the_next_is_read(block_of, slow):
    block_of(4)
    pause = {"reading": 0.0, "steps": 0.005}[slow]
    data = numbered(24, read=lambda: time.sleep(0.005 - pause))
    batches = planned(6, 4)
    for number, (part, rows) in enumerate(staged(data, batches)):
        time.sleep(pause)
        assert torch.equal(part.x[rows.new[0]], data.x[batches.new[number]])


def test_every_block_is_read_once_and_beside_the_steps(block_of):
    block_of(4)
    read = []
    blocks = list(staged(numbered(20, read=lambda: read.append(threading.current_thread())), planned(5, 4)))
    assert len(read) == len(blocks) == 5
    assert threading.main_thread() not in read


def test_what_fails_in_the_thread_reaches_the_caller(block_of):
    block_of(4)
    read = []

    def reading():
        read.append(1)
        if len(read) == 3:
            raise OSError("the disk has gone")

    before = threading.active_count()
    blocks = staged(numbered(24, reading), planned(6, 4))
    next(blocks)
    next(blocks)
    with pytest.raises(OSError, match="the disk has gone"):
        next(blocks)
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(blocks)


def test_a_position_that_is_not_there_reaches_the_caller():
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        list(staged(numbered(4), planned(3, 4)))


def test_who_stops_midway_leaves_no_thread_behind(block_of):
    block_of(4)
    before = threading.active_count()
    blocks = staged(numbered(24), planned(6, 4))
    next(blocks)
    blocks.close()
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(blocks)


# Whole runs


def told(training):
    """All that a training comes to, with the loss of each epoch."""
    losses = []
    training.events.listeners.append(lambda event: losses.append(event.get("loss")))
    training.run()
    return losses, outcome(training)


def from_files(training):
    """The same training, with all that it learns from in a file."""
    ask, files = training._training_data, []

    def asked(task):
        data = ask(task)
        files.append(Pretended(data.x))
        return Examples(data.x, data.y, files[-1])

    training._training_data = asked
    found = told(training)
    assert all(file.released for file in files)
    return found


# 80 = 3 * 24 + 8: an odd last batch
FIELDS = {"augment": "crop-flip", "batch_size": 24, "lr_schedule": "cosine", "epochs": 2}
ways = pytest.mark.parametrize(
    ("method", "examples"),
    [(m, n) for m in ("er", "ewc", "derpp", "tfcsr", "joint") for n in (1, 50)] + [("er", 10**6)],
)


@functools.cache
def from_memory(method):
    return told(make_training(method=method, **FIELDS))


@ways
def test_plain_steps_from_a_file_are_those_from_memory(block_of, method, examples):
    block_of(examples)
    assert from_files(make_training(method=method, **FIELDS)) == from_memory(method)


@ways
def test_captured_steps_from_a_file_are_those_from_memory(block_of, method, examples):
    block_of(examples)
    recorder = Recorder()
    assert from_files(captured(recorder, method=method, **FIELDS)) == from_memory(method)
    assert recorder.replayed > 0


def test_a_step_that_fails_ends_the_reading(block_of):
    block_of(24)
    before = threading.active_count()
    training = make_training(method="er", batch_size=24)

    def failing(data, row):
        raise RuntimeError("out of something")

    training.steps.step = failing
    with pytest.raises(RuntimeError, match="out of something"):
        from_files(training)
    assert threading.active_count() == before


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (50, 8, 8), dtype=np.uint8)
    y = np.repeat(np.array(["ant", "bee", "cow"]), (20, 13, 17))
    for number, (image, label) in enumerate(zip(x, y, strict=True)):
        place = tmp_path / "images" / label
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    return tmp_path / "images", x[:, None], y


@pytest.mark.parametrize("method", ["er", "ewc"])
def test_a_folder_of_images_is_learned_to_the_same_bits_as_its_arrays(folder, monkeypatch, method):
    monkeypatch.setattr(staging, "BLOCK_BYTES", 11 * 64)
    path, x, y = folder
    fields = {"epochs": 3, "batch_size": 8, "device": "cpu", "threads": 1, "normalise": (0.5, 0.25)}
    more = {"buffer_capacity": 15} if method == "er" else {}
    mapped, in_memory = (tfcsr.Learner(model="cnn", method=method, **fields, **more) for _ in range(2))
    for _ in range(2):  # the second time the classes are known
        mapped.learn(path)
        in_memory.learn(x, y)
    assert mapped.classes == in_memory.classes == ["ant", "bee", "cow"]
    for (name, one), other in zip(
        mapped.model.state_dict().items(), in_memory.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name
    assert np.array_equal(mapped.predict_proba(x), in_memory.predict_proba(x))
    assert mapped.history[-1].steps == in_memory.history[-1].steps > 0
