"""CIFAR-100, 10 tasks of 10 classes, with ResNet-18: the paper's second benchmark."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from tfcsr.data.dataset import Dataset


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import cifar100

    return cifar100.load(data_dir)


BENCHMARKS.add("split-cifar100")(
    Benchmark(
        load=load,
        classes=100,
        tasks=10,
        defaults={
            "model": "resnet18",
            "epochs": 20,
            "buffer_capacity": 1000,
            "mastery_threshold": 10.0,
            "si_lambda": 1.0,
            "augment": "crop-flip",
        },
    )
)
