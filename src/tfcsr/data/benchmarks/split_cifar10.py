"""CIFAR-10, 5 tasks of 2 classes, with ResNet-18: photographs with few classes, and many images of each."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import cifar10

    return cifar10.load(data_dir)


BENCHMARKS.add("split-cifar10")(
    Benchmark(
        load=load,
        classes=10,
        tasks=5,
        defaults={
            "model": "resnet18",
            "epochs": 20,
            "buffer_capacity": 500,
            "si_lambda": 1.0,
            "augment": "crop-flip",
        },
    )
)
