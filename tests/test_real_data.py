"""Whole runs on the real benchmarks at reduced size."""

import os

import pytest

import tfcsr

pytestmark = pytest.mark.skipif("TFCSR_DATA" not in os.environ, reason="TFCSR_DATA is not set: no real data to run on")

SMALL_MNIST = {"benchmark": "split-mnist", "max_per_class": 400, "epochs": 3, "device": "cpu", "threads": 1}


def run(**fields):
    return tfcsr.run(tfcsr.RunSpec(**fields))


@pytest.fixture(scope="module")
def mnist_er():
    return run(**SMALL_MNIST, method="er")


def test_split_mnist_replay_remembers_and_finetuning_forgets(mnist_er):
    finetune = run(**SMALL_MNIST, method="finetune")
    assert finetune.final_accuracy < 30
    assert mnist_er.final_accuracy > 70
    assert mnist_er.classes_per_task == [[2, 6], [1, 8], [4, 5], [0, 9], [3, 7]]
    assert sum(mnist_er.test_sizes) == 10_000
    assert mnist_er.buffer_bytes == 200 * (784 + 8)


def test_split_mnist_tfcsr_equals_er(mnist_er):
    tf = run(**SMALL_MNIST, method="tfcsr")
    assert tf.weights_sha256 == mnist_er.weights_sha256
    assert tf.memory_checks >= 10
    assert mnist_er.memory_checks == 0


def test_split_cifar100_runs_augmented():
    # The paper's ResNet-18 takes minutes here; the data, the views and the task cut are the same with a small network.
    result = run(
        benchmark="split-cifar100",
        model="cnn",
        tasks=3,
        max_per_class=20,
        epochs=1,
        method="tfcsr",
        device="cpu",
        threads=1,
    )
    assert [len(classes) for classes in result.classes_per_task] == [34, 34, 32]
    assert result.spec["augment"] == "crop-flip"
    assert result.memory_checks == 3
    assert result.final_accuracy > 1.5
