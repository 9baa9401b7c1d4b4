"""CIFAR-100, 10 tasks of 10 classes, with ResNet-18: the paper's second benchmark."""

from tfcsr.data import cifar100
from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

BENCHMARKS.add("split-cifar100")(
    Benchmark(
        load=cifar100.load,
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
