from dataclasses import replace

import numpy as np
import pytest

from tfcsr.data.dataset import Dataset


def make() -> Dataset:
    x = np.zeros((6, 3, 4, 5), np.uint8)
    y = np.array([0, 1, 2, 0, 1, 2], np.int64)
    return Dataset("toy", x, y, x[:3], y[:3], ("a", "b", "c"), 255.0, (0.5,) * 3, (0.2,) * 3)


def test_a_sound_dataset_is_accepted():
    assert make().class_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train_x": np.zeros((6, 3, 4), np.uint8)}, "train images are uint8 (6, 3, 4)"),
        ({"test_x": np.zeros((3, 3, 4, 5), np.float32)}, "test images are float32"),
        ({"train_x": np.zeros((0, 3, 4, 5), np.uint8), "train_y": np.zeros(0, np.int64)}, "(0, 3, 4, 5)"),
        ({"test_x": np.zeros((3, 3, 5, 5), np.uint8)}, "test images (3, 5, 5)"),
        ({"train_y": np.zeros(5, np.int64)}, "train labels are int64 (5,), expected int64 (6,)"),
        ({"train_y": np.array([0, 1, 2, 0, 1, 2], np.int32)}, "int32"),
        ({"train_y": np.array([0, 1, 2, 0, 1, 3], np.int64)}, "0 to 3, expected 0 to 2"),
        ({"test_y": np.array([0, 1, -1], np.int64)}, "-1 to 1, expected 0 to 2"),
        ({"test_y": np.array([0, 2, 2], np.int64)}, "class 1 has no test image"),
        ({"train_x": np.full((6, 3, 4, 5), 17, np.uint8), "scale": 16.0}, "a pixel of 17, expected at most 16"),
        ({"mean": (0.5,)}, "expected 3 values each"),
        ({"std": (0.2, 0.2, 0.0)}, "std above 0"),
    ],
)
def test_what_is_wrong_is_said(refused, change, said):
    with refused("toy", said):
        replace(make(), **change)
