"""The paper's CNN for Split MNIST: two 3x3 convolutions and two linear layers; adapts to the input size."""

from torch import nn

from tfcsr.errors import SpecError
from tfcsr.models import MODELS


@MODELS.add("cnn")
def cnn(shape: tuple[int, int, int], classes: int) -> nn.Module:
    channels, height, width = shape
    if min(height, width) < 4:
        raise SpecError(f"model cnn halves its input twice: {height}x{width} pixels are too few, 4x4 is the least")
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
