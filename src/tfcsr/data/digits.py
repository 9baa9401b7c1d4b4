"""The 1,797 handwritten digits of 8x8 pixels that come with scikit-learn: the dataset that needs no download."""

import numpy as np

from tfcsr.data.dataset import Dataset

MEAN, STD = 0.3051, 0.3762  # of the train split, after scaling
TEST_EVERY = 5


def load() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = bunch.images.astype(np.uint8)[:, np.newaxis]
    y = bunch.target.astype(np.int64)
    # Split by position, not by a generator, so that it is the same under every version of every library.
    test = np.zeros(len(y), bool)
    for label in range(10):
        test[np.flatnonzero(y == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return Dataset(
        name="digits",
        train_x=x[~test],
        train_y=y[~test],
        test_x=x[test],
        test_y=y[test],
        class_names=tuple("0123456789"),
        scale=16.0,
        mean=(MEAN,),
        std=(STD,),
    )
