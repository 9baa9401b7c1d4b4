"""MNIST in tasks that have all digits, each with the pixels of its images in an order of its own."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import mnist

    return mnist.load(data_dir)


def permuted(x: "Tensor", task: int) -> "Tensor":
    """Images [N, C, H, W] with their pixels in the order of this task, the same in every run."""
    import numpy as np
    import torch

    from tfcsr.generators import derived_seed

    pixels = x.shape[2] * x.shape[3]
    order = np.random.default_rng(derived_seed(0, f"permutation/{task}")).permutation(pixels)
    return x.flatten(2)[:, :, torch.from_numpy(order)].reshape(x.shape)


BENCHMARKS.add("permuted-mnist")(
    Benchmark(load=load, classes=10, tasks=10, defaults={"model": "mlp", "scenario": "domain"}, change=permuted)
)
