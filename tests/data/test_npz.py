import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given

from tfcsr.data import npz
from tfcsr.errors import DataError

X = np.arange(4 * 2 * 3 * 5, dtype=np.uint8).reshape(4, 2, 3, 5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.npz"


@pytest.mark.parametrize("names", ["x y", "train_x train_y", "x_train y_train"])
@pytest.mark.parametrize("more", ["", "test_x test_y", "x_test y_test"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_under_every_name(path, names, more, save):
    y = np.array([3, 1, 1, 2])
    arrays = dict(zip(names.split(), (X, y), strict=True)) | dict(zip(more.split(), (X[:2], y[:2]), strict=False))
    save(path, other=np.zeros(3), **arrays)
    found = npz.read(path)
    assert np.array_equal(found.train_x, X)
    assert np.array_equal(found.train_y, y)
    if more:
        assert np.array_equal(found.test_x, X[:2])
        assert np.array_equal(found.test_y, y[:2])
    else:
        assert found.test_x is found.test_y is None
    assert np.array_equal(npz.labels(str(path)), y)


@pytest.mark.parametrize("kind", ["i1", "i8", "u1", ">u4", "U3", "S2"])
def test_labels_of_every_kind(path, kind):
    y = np.array([1, 2, 3, 1]).astype(kind)
    np.savez(path, x=X.astype(np.float32), y=y)
    found = npz.read(path)
    assert found.train_y.tolist() == y.tolist()
    assert found.train_x.dtype == np.float32


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X}, "holds x: name its arrays x and y, or train_x, train_y, test_x and test_y"),
        ({}, "holds nothing"),
        ({"a": X, "b": X}, "holds a, b"),
        ({"x": X, "y": np.zeros(3, int)}, "x has 4 examples and y 3 labels"),
        ({"x": X, "y": np.zeros(4, int), "test_x": X}, "has test_x and no test_y"),
        ({"x": X, "y": np.zeros(4, int), "y_test": X}, "has y_test and no x_test"),
        (
            {"x": X, "y": np.zeros(4, int), "test_x": X, "test_y": np.zeros(5, int)},
            "test_x has 4 examples and test_y 5",
        ),
        ({"x": X[:0], "y": np.zeros(0, int)}, "y is empty"),
        ({"x": X[:, :0], "y": np.zeros(4, int)}, "x has shape (4, 0, 3, 5)"),
        ({"x": np.zeros(4), "y": np.zeros(4, int)}, "x has shape (4,)"),
        ({"x": X, "y": np.zeros(4)}, "y is float64 (4,), expected whole numbers or text"),
        ({"x": X, "y": np.zeros((4, 1), int)}, "y is int64 (4, 1), expected"),
        ({"x": X, "y": np.zeros(4, bool)}, "y is bool"),
    ],
)
def test_what_does_not_go_together_is_refused(path, refused, arrays, said):
    np.savez(path, **arrays)
    with refused(path, said):
        npz.read(path)


def test_pickles_are_refused(path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(path.parent / "exploded"),)

    np.savez(path, x=X, y=np.array([Bomb(), 1, 2, 3], object))
    for read in (npz.read, npz.labels):
        with pytest.raises(DataError, match=rf"^{path}: y is an array of Python objects.*save numbers or text"):
            read(path)
    assert not (path.parent / "exploded").exists()


def test_what_is_no_npz_is_refused(path, refused):
    with refused("there is no file", path):
        npz.read(path)
    with refused(path.parent, "not a regular file"):
        npz.read(path.parent)
    os.mkfifo(path.parent / "pipe")
    with refused("not a regular file"):
        npz.read(path.parent / "pipe")
    for data in (b"", b"hello", b"\x80\x04K\x01."):
        path.write_bytes(data)
        with refused(path, "is not an .npz file"):
            npz.read(path)
    with path.open("wb") as file:
        np.save(file, X)
    with refused(path, "is not an .npz file", "np.savez"):
        npz.read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"not an array")
        archive.writestr("y", b"not an array")
    with refused(path, "x is not an array"):
        npz.read(path)


def test_an_archive_larger_than_the_memory_is_refused(path, refused, monkeypatch):
    np.savez_compressed(path, x=np.zeros((1000, 1000), np.uint8), y=np.zeros(1000, int))
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(npz, "_free_memory", lambda: 10**6)
    for read in (npz.read, npz.labels):
        with refused(path, "unpacks to 0.0 GB and 0.0 GB of memory are free"):
            read(path)


def test_how_much_memory_is_free():
    assert 1 << 20 < npz._free_memory() < 1 << 50


def test_a_header_decides_over_no_memory(path, refused):
    """An array that claims to be larger than its file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (1 << 44, 4)})
    np.savez(path, y=np.zeros(4, int))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", head.getvalue())
    with refused(path, "x"):
        npz.read(path)


def test_damage_is_refused_or_harmless(tmp_path_factory, mutations, sound_or_refused):
    path = tmp_path_factory.mktemp("damaged") / "x.npz"
    np.savez_compressed(path, x=X, y=np.array(["a", "b", "c", "d"]))

    @given(mutations(path.read_bytes(), 200))
    def check(data):
        path.write_bytes(data)
        with sound_or_refused(path):
            assert len(npz.read(path).train_y) > 0

    check()
