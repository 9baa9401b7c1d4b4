"""What may be given to learn from, and how it is told that something may not; how it is normalised and transformed."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from tests.learner.conftest import (
    A,
    B,
    C,
    assert_alike,
    differences,
    dropping,
    essence,
    features,
    images,
    make,
    mlp,
    raw,
    refused,
    taught,
)
from tfcsr import Learner
from tfcsr.errors import TfcsrWarning


def learned(x: Any, y: Any = None, **options: Any) -> Learner:
    learner = make(**options)
    learner.learn(x, y)
    return learner


class Pairs(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Stream(IterableDataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __iter__(self):
        return iter(self.pairs)


# Examples


def test_every_way_to_give_the_same_examples_is_the_same(tmp_path):
    x, y = images(A)
    numbers = [A.index(label) for label in y]
    np.savez(tmp_path / "week.npz", x=x, y=np.array(y))
    pictures = [Image.fromarray(one[0]) for one in x]
    expected = essence(learned(x, y))
    ways = {
        "numpy labels": (x, np.array(y)),
        "torch": (torch.from_numpy(x), y),
        "a list of arrays": (list(x), tuple(y)),
        "a generator of labels": (x, (label for label in y)),
        "nested lists of arrays": ([list(one) for one in x], y),
        "read only": (_read_only(x), y),
        "other order in memory": (np.asfortranarray(x), y),
        "a view": (np.concatenate([x, x], axis=3)[..., :8], y),
        "dataset": (Pairs(x, y), None),
        "dataset of tensors": (Pairs(torch.from_numpy(x), y), None),
        "dataset of pictures": (Pairs(pictures, y), None),
        "iterable": (Stream(list(zip(x, y, strict=True))), None),
        "iterable of lists": (Stream([[one, label] for one, label in zip(torch.from_numpy(x), y, strict=True)]), None),
        "npz": (tmp_path / "week.npz", None),
        "npz by its name": (str(tmp_path / "week.npz"), None),
    }
    for name, (given, labels) in ways.items():
        found = essence(learned(given, labels))
        assert found["instalments"][0].pop("source") in ("arrays", "dataset", str(tmp_path / "week.npz"))
        wanted = expected | {"instalments": [{k: v for k, v in expected["instalments"][0].items() if k != "source"}]}
        assert differences(found, wanted) == [], name
    both = TensorDataset(torch.from_numpy(x), torch.tensor(numbers))
    one, other = learned(both), learned(x, numbers)
    assert one.classes == other.classes
    np.testing.assert_array_equal(one.predict_proba(x), other.predict_proba(x))


def _read_only(x):
    x = x.copy()
    x.setflags(write=False)
    return x


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (np.uint8, "uint8"),
        (np.bool_, "float32"),
        (np.float16, "float16"),
        (np.float32, "float32"),
        (np.float64, "float32"),
        (np.longdouble, "float32"),
        (">f4", "float32"),
        (">f8", "float32"),
    ],
)
def test_numbers_of_every_kind(kind, stored):
    x, y = features(("m", "n"))
    x = (x > 2) if kind is np.bool_ else (x * 10 + 100 if kind is np.uint8 else x)
    learner = learned(x.astype(kind), y)
    assert learner.state_dict()["built"] == {"shape": [6], "dtype": stored}
    assert learner.state_dict()["loop"]["buffer"]["x"].dtype == getattr(torch, stored)
    assert learner.evaluate(x.astype(kind), y).accuracy > 80
    learner.learn(x.astype(kind), ["o" if label == "m" else "n" for label in y])
    assert learner.predict(x.astype(kind)).shape == (len(x),)


def test_doubles_are_singles():
    x, y = features(("m", "n"))
    assert_alike(learned(x.astype(np.float64), y), learned(x, y))
    assert_alike(learned(torch.from_numpy(x).double(), y), learned(x, y))
    assert_alike(learned(torch.from_numpy(x).requires_grad_(), y), learned(x, y))
    assert_alike(learned(x.tolist(), y), learned(x, y))


class Reader(nn.Module):
    """Of token ids."""

    def __init__(self, shape: tuple[int, ...] = (5,), classes: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not x.is_floating_point()
        return self.head(self.words(x.long()).mean(dim=1))


def sentences(labels: tuple[str, ...], seed: int = 0) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    y = [label for label in labels for _ in range(12)]
    return np.array([rng.integers(0, 4, 5) + 4 * (ord(label) - ord("a")) for label in y]), y


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16, np.int8])
def test_token_ids(folder, kind):
    learner, straight = (make(model=Reader, lr=0.05, epochs=10) for _ in range(2))
    for one in (learner, straight):
        for labels in (("b", "c"), ("a", "b")):
            x, y = sentences(labels)
            one.learn(x.astype(kind), y)
    assert straight.evaluate(*sentences(("a", "b", "c"), seed=1)).accuracy > 90
    assert learner.state_dict()["mean"] is None
    assert learner.state_dict()["loop"]["buffer"]["x"].dtype == getattr(torch, kind.__name__)
    learner.save(folder)
    found = Learner.load(folder, model=Reader)
    for one in (found, straight):
        one.learn(*sentences(("e",)))
    one, other = essence(found), essence(straight)
    del one["evaluations"], other["evaluations"]
    assert_alike(one, other)


def test_images_in_folders(tmp_path):
    for week, labels in (("1", ("cat", "dog")), ("2", ("ant", "dog"))):
        for label in labels:
            x, _ = images((label,), each=6, seed=int(week), channels=3)
            (tmp_path / week / label).mkdir(parents=True)
            for i, one in enumerate(x):
                Image.fromarray(np.moveaxis(one, 0, -1)).save(tmp_path / week / label / f"{i}.png")
    learner = make(epochs=6)
    done = learner.learn(tmp_path / "1")
    assert done.source == str(tmp_path / "1")
    assert learner.classes == ["cat", "dog"]
    learner.learn(str(tmp_path / "2"))
    assert learner.classes == ["cat", "dog", "ant"]
    assert learner.evaluate(tmp_path / "2").accuracy > 60
    files = sorted((tmp_path / "1" / "cat").iterdir())
    by_file, by_array = learner.predict_proba(files), learner.predict_proba(learner.read_images(files))
    np.testing.assert_array_equal(by_file, by_array)
    np.testing.assert_array_equal(learner.predict_proba(tmp_path / "1" / "cat"), by_file)
    assert learner.predict(str(files[0])).shape == (1,)
    # The same pixels as arrays.
    straight = make(epochs=6)
    for week in ("1", "2"):
        where = sorted((tmp_path / week).glob("*/*.png"))
        x = np.stack([np.moveaxis(np.array(Image.open(path)), -1, 0) for path in where])
        straight.learn(x, [path.parent.name for path in where])
    one, other = essence(learner), essence(straight)
    assert differences(one["loop"]["buffer"], other["loop"]["buffer"]) == []
    for name, tensor in one["loop"]["model"].items():
        torch.testing.assert_close(tensor, other["loop"]["model"][name], rtol=1e-3, atol=1e-4)


def test_images_of_another_size_are_brought_to_the_first_ones(tmp_path):
    for name, size, mode in (("1", 8, "L"), ("2", 12, "RGB")):
        for label in ("a", "b"):
            (tmp_path / name / label).mkdir(parents=True)
            for i in range(4):
                picture = Image.fromarray(np.full((size, size, 3), 40 * i + ord(label), np.uint8)).convert(mode)
                picture.save(tmp_path / name / label / f"{i}.png")
    learner = learned(tmp_path / "1")
    learner.learn(tmp_path / "2")
    assert learner.state_dict()["built"]["shape"] == [1, 8, 8]
    sized = learned(tmp_path / "2", size=6)
    assert sized.state_dict()["built"]["shape"] == [3, 6, 6]
    with refused("labels of its own", "leave y out"):
        learner.learn(tmp_path / "1", [1])
    with refused(str(tmp_path / "3")):
        learner.learn(tmp_path / "3")


# Labels


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ([0, 1, 7], [0, 1, 7]),
        ([np.int64(5), np.int32(3), np.uint8(1)], [5, 3, 1]),
        ([torch.tensor(4), torch.tensor(2), 9], [4, 2, 9]),
        (["b", "a", "ä"], ["b", "a", "ä"]),
        ([np.str_("b"), "c", "d"], ["b", "c", "d"]),
        ([("x", 1), ("x", 2), ("y", ("z", 0))], [("x", 1), ("x", 2), ("y", ("z", 0))]),
        ([1, "1", (1,)], [1, "1", (1,)]),
        ([0.5, 1.5, -2.0], [0.5, 1.5, -2.0]),
        ([True, False, 7], [True, False, 7]),
    ],
)
def test_labels_of_every_kind(folder, given, known):
    x, numbers = features((0, 1, 2))
    y = [given[number] for number in numbers]
    learner = learned(x, y, epochs=20)
    assert sorted(map(str, learner.classes)) == sorted(map(str, known))
    assert {type(label) for label in learner.classes} == {type(label) for label in known}
    learner.save(folder)
    found = Learner.load(folder, model=mlp)
    assert found.classes == learner.classes
    assert [type(label) for label in found.classes] == [type(label) for label in learner.classes]
    answers = found.predict(x)
    assert len(answers) == len(x)
    assert all(answer in known for answer in answers)
    assert np.mean([answer == label for answer, label in zip(answers, y, strict=True)]) > 0.9
    again = found.learn(x, y)
    assert again.new_classes == ()
    assert len(again.known_classes) == 3


def test_labels_of_bytes_in_a_file_are_text(tmp_path):
    x, y = images(A)
    np.savez(tmp_path / "week.npz", x=x, y=np.array([label.encode() for label in y]))
    learner = make(checkpoint_every=1)
    learner.save(tmp_path / "l")
    learner.learn(tmp_path / "week.npz")
    learner.save(tmp_path / "l")
    assert Learner.load(tmp_path / "l", model=mlp).classes == learner.classes


def test_a_label_is_the_same_whatever_wraps_it():
    x, y = features((3, 4))
    learner = learned(x, y)
    for again in (np.array(y), torch.tensor(y), [np.int16(label) for label in y], np.array(y, np.float32)):
        assert learner.learn(x, again).new_classes == ()
    pairs = [(label, "k") for label in y]
    other = learned(x, pairs)
    assert other.learn(x, [(np.int64(a), np.str_(b)) for a, b in pairs]).new_classes == ()


def test_labels_within_tuples_are_unwrapped_as_well(folder):
    x, y = features((3, 4))
    learner = learned(x, [(np.int64(label), np.str_("k")) for label in y])
    learner.save(folder)
    assert sorted(Learner.load(folder, model=mlp).classes) == [(3, "k"), (4, "k")]


# Wrong ones

X, Y = images(A)
FLAT, FLAT_Y = features(("m", "n"))


class Odd:
    """Neither this nor that."""

    __hash__ = None


class Unhashable:
    __hash__ = None

    def __repr__(self):
        return "Unhashable()"


def _with(value, at=3):
    x = FLAT.copy()
    x[at, 1] = value
    return x


WRONG = {
    "ragged": ([[1.0, 2.0], [1.0]], ["a", "b"], ("x cannot be used",)),
    "ragged arrays": ([np.zeros(3), np.zeros(4)], ["a", "b"], ("x cannot be used",)),
    "nan": (_with(np.nan), FLAT_Y, ("example 3", "not finite")),
    "infinite": (_with(-np.inf, 5), FLAT_Y, ("example 5", "not finite")),
    "nan in a tensor": (torch.from_numpy(_with(np.nan)), FLAT_Y, ("example 3",)),
    "empty": (X[:0], [], ("(0, 1, 8, 8)", "at least one example")),
    "empty list": ([], [], ("(0,)", "at least one example")),
    "examples without pixels": (np.zeros((4, 0, 3), np.uint8), [1, 2, 3, 4], ("(4, 0, 3)",)),
    "numbers, not examples": (np.zeros(4, np.float32), [1, 2, 3, 4], ("(4,)", "[N, ...]")),
    "one number": (np.float32(3), [1], ("[N, ...]",)),
    "one number without labels": (5, None, ("int", "needs y")),
    "text": (["a", "b"], [1, 2], ("x cannot be used",)),
    "objects": (np.array([{}, {}], object), [1, 2], ("x cannot be used",)),
    "none": (None, [1, 2], ("x cannot be used",)),
    "none at all": (None, None, ("labels are missing", "NoneType")),
    "complex": (FLAT.astype(np.complex64), FLAT_Y, ("complex64",)),
    "uint16": (FLAT.astype(np.uint16), FLAT_Y, ("uint16",)),
    "dates": (np.zeros((24, 2), "datetime64[s]"), FLAT_Y, ("x cannot be used",)),
    "fewer labels": (X, Y[:-1], ("24 examples", "23 labels")),
    "more labels": (X, [*Y, "m"], ("24 examples", "25 labels")),
    "labels in a table": (X, np.zeros((24, 1)), ("(24, 1)", "[N]")),
    "one label for all": (X, np.array(3), ("()", "[N]")),
    "one number for all": (X, 5, ("5",)),
    "a function of labels": (X, len, ("labels",)),
    "missing labels": (X, None, ("labels are missing", "ndarray", "needs y")),
    "missing labels of a tensor": (torch.from_numpy(X), None, ("labels are missing", "Tensor")),
    "missing labels of a list": (list(X), None, ("labels are missing", "list")),
    "unhashable": (X, [[1]] * 24, ("unhashable type: 'list'",)),
    "unhashable objects": (X, [Unhashable()] * 24, ("Unhashable",)),
    "no label": (X, [None, *Y[1:]], ("a label is None",)),
    "label is nan": (X, [float("nan"), *Y[1:]], ("a label is nan",)),
    "label is nan in an array": (X, np.array([np.nan] + [1.0] * 23), ("a label is nan",)),
    "a label of several numbers": (X, [torch.tensor([1, 2])] * 24, ("label",)),
    "a label that is an array": (X, [np.array([1, 2])] * 24, ("label",)),
    "loader": (DataLoader(Pairs(X, Y)), None, ("give the dataset, not its DataLoader",)),
    "loader with labels": (DataLoader(Pairs(X, Y)), Y, ("DataLoader",)),
    "dataset with labels": (Pairs(X, Y), Y, ("y",)),
    "three tensors": (TensorDataset(*[torch.zeros(3, 2)] * 3), None, ("TensorDataset of 3",)),
    "no pairs": (Pairs([1, 2], [3, 4]).x, None, ("labels are missing",)),
    "dataset without labels": (Stream(list(X)), None, ("pairs (example, label)",)),
    "dataset of triples": (Stream([(1, 2, 3)]), None, ("pairs (example, label)",)),
    "empty dataset": (Pairs([], []), None, ("the dataset is empty",)),
    "ragged dataset": (Pairs([np.zeros((2, 3)), np.zeros((3, 3))], [1, 2]), None, ("(2, 3) and (3, 3)",)),
    "dataset of two kinds": (Pairs([np.zeros(3, np.uint8), np.zeros(3, np.complex64)], [1, 2]), None, ("complex64",)),
    "dataset of text": (Pairs(["a", "b"], [1, 2]), None, ("x cannot be used",)),
    "a dict": ({"x": X, "y": Y}, None, ("dict",)),
    "a set": ({1, 2}, None, ("labels are missing", "set")),
    "a folder that is not there": ("/nowhere/at/all", None, ("/nowhere/at/all",)),
    "a file that is not there": ("/nowhere/at/all.npz", None, ("/nowhere/at/all.npz",)),
    "no path": ("a\0b", None, ("a\\x00b",)),
    "an object": (Odd(), None, ("labels are missing", "Odd")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_learned_from_is_named(name):
    x, y, words = WRONG[name]
    learner = make()
    with refused(*words):
        learner.learn(x, y)
    assert learner.classes == []


LATER = {
    "another shape": (X[..., :7], Y, ("uint8 [N, 1, 8, 7]", "uint8 [N, 1, 8, 8]")),
    "another dimension": (X[:, 0], Y, ("uint8 [N, 8, 8]", "uint8 [N, 1, 8, 8]")),
    "floats": (X.astype(np.float32), Y, ("float32", "uint8", "convert it")),
    "integers": (X.astype(np.int64), Y, ("int64", "uint8", "convert it")),
    "token ids": (np.zeros((24, 5), np.int64), Y, ("int64 [N, 5]",)),
    "a dataset": (Pairs(X[..., :7], Y), None, ("uint8 [N, 1, 8, 7]",)),
}


@pytest.mark.parametrize("name", LATER)
def test_later_examples_are_like_the_first(name):
    x, y, words = LATER[name]
    learner = taught(A)
    for ask in (learner.learn, learner.evaluate):
        with refused(*words):
            ask(x, y)
    if y is not None:
        with refused(*words):
            learner.predict(x)


def test_numbers_of_the_same_kind_are_converted():
    learner = learned(FLAT, FLAT_Y)
    for kind in (np.float16, np.float64):
        learner.learn(FLAT.astype(kind), FLAT_Y)
        assert learner.evaluate(FLAT.astype(kind), FLAT_Y).accuracy > 80
    with refused("uint8", "float32"):
        learner.learn(FLAT.astype(np.uint8), FLAT_Y)


def test_numbers_that_do_not_fit_are_refused_and_not_bent():
    x, y = sentences(("a", "b"))
    learner = learned(x.astype(np.int8), y, model=Reader)
    with refused("int8"):
        learner.learn(np.full((24, 5), 300), y)
    with refused("int8"):
        learner.predict(np.full((2, 5), -200))
    halves = learned(FLAT.astype(np.float16), FLAT_Y)
    with refused("example 0"):
        halves.learn(np.full((24, 6), 1e6), FLAT_Y)
    with refused("example 2"):
        learned(np.array([[1.0, 2.0], [2.0, 1.0], [1e39, 0.0]]), [1, 2, 1])


ASKED = {
    "nothing": (X[:0], ("(0, 1, 8, 8)",)),
    "an empty list": ([], ("(0,)",)),
    "one example": (X[0], ("uint8 [N, 8, 8]",)),
    "ragged": ([[1, 2], [3]], ("x cannot be used",)),
    "ragged dataset": (Pairs([X[0], X[1][:, :4]], [1, 2]), ("shapes",)),
    "empty dataset": (Pairs([], []), ("empty",)),
    "text": ("nowhere.png", ("nowhere.png",)),
    "a file": ("nowhere.npz", ("nowhere.npz",)),
    "none": (None, ("x cannot be used",)),
    "one number": (3, ("[N, ...]",)),
    "loader": (DataLoader(Pairs(X, Y)), ("x cannot be used",)),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_asked_about_is_named(name):
    x, words = ASKED[name]
    learner = taught(A)
    with refused(*words):
        learner.predict(x)


def test_asked_in_every_way():
    learner = taught(A)
    expected = learner.predict_proba(X)
    for x in (torch.from_numpy(X), list(X), Pairs(X, Y), TensorDataset(torch.from_numpy(X)), _read_only(X)):
        np.testing.assert_array_equal(learner.predict_proba(x), expected)
    np.testing.assert_array_equal(learner.predict_proba(X[:1]), expected[:1])


def test_images_are_not_for_a_network_of_numbers():
    learner = learned(FLAT, FLAT_Y)
    with refused("float32 [N, 6]", "images"):
        learner.predict("picture.png")
    with refused("not taught with images"):
        learner.read_images(["picture.png"])


# Normalised


class Watching(nn.Module):
    """Remembers what it is fed with."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(int(np.prod(shape)), classes)
        self.fed: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fed.append(x.detach().clone())
        return self.head(x.flatten(1))


def fed(learner: Learner, x: np.ndarray) -> torch.Tensor:
    """What the network gets for these examples."""
    learner.model.fed.clear()
    learner.predict(x)
    return torch.cat(learner.model.fed)


def test_each_channel_is_normalised_by_the_first_data():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 7, (24, 3, 4, 4)).astype(np.float32)
    x[:, 1] *= 100
    x[:, 2] = 5  # never changes: left where it is
    learner = learned(x, Y, model=Watching)
    seen = fed(learner, x).numpy()
    mean, std = x.mean(axis=(0, 2, 3), dtype=np.float64), x.std(axis=(0, 2, 3), dtype=np.float64)
    for channel in (0, 1):
        np.testing.assert_allclose(seen[:, channel], (x[:, channel] - mean[channel]) / std[channel], atol=1e-4)
    np.testing.assert_array_equal(seen[:, 2], 0)
    before = raw(learner.state_dict()["mean"]), raw(learner.state_dict()["std"])
    learner.learn(x * 9 - 4, ["q"] * 24)
    assert (raw(learner.state_dict()["mean"]), raw(learner.state_dict()["std"])) == before
    np.testing.assert_array_equal(fed(learner, x).numpy(), seen)


def test_each_feature_of_plain_numbers_is():
    learner = learned(FLAT * np.arange(1, 7), FLAT_Y, model=Watching)
    seen = fed(learner, FLAT * np.arange(1, 7))
    torch.testing.assert_close(seen.mean(dim=0), torch.zeros(6), rtol=0, atol=1e-5)
    torch.testing.assert_close(seen.std(dim=0, correction=0), torch.ones(6))


def test_pixels_are_normalised_too():
    learner = learned(X, Y, model=Watching)
    seen = fed(learner, X)
    assert seen.dtype == torch.float32
    assert float(seen.mean()) == pytest.approx(0, abs=1e-5)
    assert float(seen.std(correction=0)) == pytest.approx(1, abs=1e-5)


def test_none_leaves_pixels_in_0_to_1_and_other_numbers_alone():
    np.testing.assert_allclose(fed(learned(X, Y, model=Watching, normalise="none"), X).numpy(), X / 255, atol=1e-6)
    flat = fed(learned(FLAT, FLAT_Y, model=Watching, normalise="none"), FLAT).numpy()
    np.testing.assert_array_equal(flat, FLAT)
    ids, y = sentences(("a", "b"))
    assert fed(learned(ids.astype(np.float32), y, model=Watching, normalise="none"), ids.astype(np.float32)).max() > 3


def test_given_numbers_are_of_pixels_in_0_to_1():
    x, y = images(A, channels=3)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)
    learner = learned(x, y, model=Watching, normalise=(mean, std))
    expected = (x / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(fed(learner, x).numpy(), expected, atol=1e-5)
    one = learned(X, Y, model=Watching, normalise=(0.5, [0.5]))
    np.testing.assert_allclose(fed(one, X).numpy(), X / 127.5 - 1, atol=1e-5)
    flat = learned(FLAT, FLAT_Y, model=Watching, normalise=(torch.ones(6), np.full(6, 2.0)))
    np.testing.assert_allclose(fed(flat, FLAT).numpy(), (FLAT - 1) / 2, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("al", ("'al'", "auto")),
        (3, ("3", "(mean, std)")),
        (None, ("None", "(mean, std)")),
        ((1, 2, 3), ("(mean, std)",)),
        (((0.1, 0.2), 1), ("mean", "2 numbers", "give 1")),
        ((0.1, 0), ("std", "above 0")),
        ((0.1, -1), ("std", "above 0")),
        ((float("nan"), 1), ("mean",)),
        ((0.5, float("inf")), ("std",)),
        (("a", "b"), ("mean",)),
        ((None, None), ("mean",)),
    ],
)
def test_normalisations_that_are_none(given, words):
    with refused(*words):
        learned(X, Y, normalise=given)


def test_token_ids_are_not_normalised():
    x, y = sentences(("a", "b"))
    learner = learned(x, y, model=Reader)
    assert learner.state_dict()["mean"] is None
    assert learner.state_dict()["std"] is None


def test_bool_examples_are_zeros_and_ones():
    x = FLAT > 2
    np.testing.assert_array_equal(fed(learned(x, FLAT_Y, model=Watching, normalise="none"), x).numpy(), x)


@pytest.mark.parametrize("normalise", ["none", (0.4, 0.2)])
def test_how_to_normalise_is_saved_with_a_learner_that_has_learned_nothing(folder, normalise):
    make(normalise=normalise).save(folder)
    found = Learner.load(folder, model=mlp)
    found.learn(*images(A))
    assert_alike(found, taught(A, normalise=normalise))


def test_a_thousand_million_is_as_precise_as_one():
    x = 1e6 + FLAT.astype(np.float64)
    seen = fed(learned(x, FLAT_Y, model=Watching), x)
    assert float(seen.std(correction=0)) == pytest.approx(1, abs=0.05)


# Transformed


class Noting:
    """A transform that notes what it is given."""

    def __init__(self) -> None:
        self.given: list[torch.Tensor] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.given.append(x.clone())
        return x


def test_a_transform_gets_the_stored_examples_of_batches_in_training_only():
    noting = Noting()
    learner = make("er", transform=noting, epochs=1)
    x, y = images(A)
    learner.learn(x, y)
    steps = learner.history[0].steps
    assert len(noting.given) == steps
    assert {(batch.dtype, tuple(batch.shape[1:])) for batch in noting.given} == {(torch.uint8, (1, 8, 8))}
    noting.given.clear()
    learner.predict(x)
    learner.evaluate(x, y)
    learner.recall()
    assert noting.given == []
    new, labels = images(C)
    learner.learn(new, labels)
    rows = {raw(row) for batch in noting.given for row in batch}
    assert {one.tobytes() for one in new} <= rows  # the new ones, all of them
    assert {one.tobytes() for one in x} & rows  # and some that are replayed
    assert {len(batch) for batch in noting.given} == {8}


def test_one_of_each_example_gets_them_one_by_one():
    noting = Noting()
    learner = make("er", transform_each=noting, epochs=1)
    learner.learn(*images(A))
    assert {tuple(one.shape) for one in noting.given} == {(1, 8, 8)}
    assert len(noting.given) == learner.state_dict()["loop"]["progress"]["samples_seen"]


def noisy(x):
    return (x.float() + 40 * torch.rand(x.shape)).clamp(0, 255)


def mirrored(x):
    return x.flip(-1)


def test_both_forms_of_a_plain_transform_are_one():
    assert_alike(taught(A, B, transform=mirrored), taught(A, B, transform_each=mirrored))
    learner, other = taught(A, transform=mirrored), taught(A)
    assert differences(essence(learner)["loop"]["model"], essence(other)["loop"]["model"]) != []
    assert differences(essence(learner)["loop"]["buffer"], essence(other)["loop"]["buffer"]) == []


@pytest.mark.parametrize("how", ["transform", "transform_each"])
def test_what_a_transform_draws_is_decided_by_the_seed(folder, how):
    torch.manual_seed(5)
    learner = taught(A, **{how: noisy})
    torch.manual_seed(6)
    same, other = taught(A, **{how: noisy}), taught(A, **{how: noisy}, seed=4)
    assert_alike(learner, same)
    assert differences(essence(learner)["loop"]["model"], essence(other)["loop"]["model"]) != []
    learner.save(folder)
    found = Learner.load(folder, model=mlp, **{how: noisy})
    for one in (found, same):
        one.learn(*images(B))
    assert_alike(found, same)


def test_what_a_transform_draws_disturbs_nothing_else():
    def drawing(x):
        torch.rand(7)
        return x

    one, other = (essence(taught(A, B, model=dropping, **given)) for given in ({"transform": drawing}, {}))
    for part in ("model", "optimizer", "buffer"):
        assert differences(one["loop"][part], other["loop"][part]) == [], part
    for name in ("order", "replay", "reservoir", "dropout"):
        assert differences(one["loop"]["generators"][name], other["loop"]["generators"][name]) == [], name


def test_a_transform_is_asked_for_when_it_is_loaded(folder):
    taught(A, transform=noisy).save(folder)
    with refused("transform", "give it again", "load(..., transform=...)"):
        Learner.load(folder, model=mlp)
    with pytest.warns(TfcsrWarning, match="transform of .* was another"):
        Learner.load(folder, model=mlp, transform=mirrored)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner.load(folder, model=mlp, transform=noisy)
    with refused("both given"):
        Learner.load(folder, model=mlp, transform=noisy, transform_each=noisy)


def test_the_other_form_of_a_transform_is_another(folder):
    taught(A, transform_each=noisy).save(folder)
    with pytest.warns(TfcsrWarning, match="was another"):
        Learner.load(folder, model=mlp, transform=noisy)


def test_a_transform_that_is_no_function_is_told_at_once():
    for how in ("transform", "transform_each"):
        with refused("transform", "3"):
            make(**{how: 3})


def test_one_that_had_none_takes_none(folder):
    taught(A).save(folder)
    with refused("without a transform", "leave transform out"):
        Learner.load(folder, model=mlp, transform=noisy)


class Brighter(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() * self.by


@pytest.mark.parametrize("transform", [Brighter(1.1), nn.ZeroPad2d(0), nn.Sequential(nn.Identity(), Brighter(1.2))])
def test_a_transform_that_is_a_module_is_known_again(folder, transform):
    taught(A, transform=transform).save(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Learner.load(folder, model=mlp, transform=copy.deepcopy(transform))
    with pytest.warns(TfcsrWarning, match="was another"):
        Learner.load(folder, model=mlp, transform=Brighter(7.0))


def test_a_transform_that_changes_the_shape_fails_in_one_learn_and_leaves_no_trace():
    learner = taught(A, transform=lambda x: x if len(x) != 6 else x[..., :4])
    before = essence(learner)
    x, y = images(C, each=2)  # a batch of two, and four that are replayed
    with pytest.raises(RuntimeError):
        learner.learn(x, y)
    assert_alike(learner, before)


def test_augmentation_is_for_images():
    with refused("crop-flip", "(6,)"):
        learned(FLAT, FLAT_Y, augment="crop-flip")
    learner = learned(X, Y, augment="crop-flip")
    learner.learn(*images(B))
    assert len(learner.classes) == 4
