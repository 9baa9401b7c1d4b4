import hashlib

import numpy as np
import pytest

from tfcsr.data import digits
from tfcsr.data.fingerprint import of_dataset


def test_shapes_and_split():
    data = digits.load()
    assert data.train_x.shape == (1442, 1, 8, 8)
    assert data.test_x.shape == (355, 1, 8, 8)
    assert data.train_x.max() == 16
    counts = np.bincount(data.train_y), np.bincount(data.test_y)
    assert np.array_equal(counts[1], sum(counts) // 5)


def test_split_is_a_partition_in_the_original_order():
    original = pytest.importorskip("sklearn.datasets").load_digits()
    data = digits.load()
    for label in range(10):
        of_class = original.images[original.target == label].astype(np.uint8)
        assert np.array_equal(data.test_x[data.test_y == label, 0], of_class[4::5])
        assert np.array_equal(data.train_x[data.train_y == label, 0], np.delete(of_class, np.s_[4::5], axis=0))


def test_the_bytes_are_those_of_the_days_when_scikit_learn_gave_them():
    """Runs of those days are told from today's by this fingerprint, and the golden weights hang on the bytes."""
    data = digits.load()
    assert of_dataset(data) == "54b27aa77b39c0a5"
    assert (data.train_x.dtype, data.train_y.dtype) == (np.uint8, np.int64)
    found = hashlib.sha256(b"".join(a.tobytes() for a in (data.train_x, data.train_y, data.test_x, data.test_y)))
    assert found.hexdigest() == "86e31c2ecbd8915e92a6bd3c14e776ede04d2f795c560ebb07daa656096f9670"


def test_mean_and_std_are_those_of_the_train_split():
    data = digits.load()
    scaled = data.train_x / data.scale
    assert data.mean == (pytest.approx(scaled.mean(), abs=5e-5),)
    assert data.std == (pytest.approx(scaled.std(), abs=5e-5),)
