"""The 1,797 handwritten digits of 8x8 pixels that come with this package: the dataset that needs no download.

They are the test set of UCI's optdigits, the same images as those of scikit-learn. digits.txt has source and licence.
"""

from importlib.resources import files

import numpy as np

from tfcsr.data.dataset import Dataset

MEAN, STD = 0.3051, 0.3762  # of the train split, after scaling
TEST_EVERY = 5


def load() -> Dataset:
    with (files("tfcsr.data") / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        x = arrays["images"][:, np.newaxis]
        y = arrays["labels"].astype(np.int64)
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
