"""MNIST in tasks that have all digits, each with its images turned by an angle of its own: 0, 18, ... 162 degrees."""

from typing import TYPE_CHECKING

from tfcsr.data.benchmarks import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from torch import Tensor

    from tfcsr.data.dataset import Dataset

DEGREES = 18
AT_ONCE = 4096  # images, which are floats while they are turned


def load(data_dir: str | None) -> "Dataset":
    from tfcsr.data import mnist

    return mnist.load(data_dir)


def rotated(x: "Tensor", task: int) -> "Tensor":
    """Images [N, C, H, W] turned to the left around their middle; what comes in at the corners is black."""
    import math

    import torch
    from torch.nn.functional import affine_grid, grid_sample

    if task == 1:
        return x
    angle = math.radians(DEGREES * (task - 1))
    turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])

    def turned(part: "Tensor") -> "Tensor":
        grid = affine_grid(turn.expand(len(part), 2, 3), list(part.shape), align_corners=False)
        found: Tensor = grid_sample(part.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        return found.round().clamp(0, 255).to(torch.uint8)

    return torch.cat([turned(part) for part in x.split(AT_ONCE)])


BENCHMARKS.add("rotated-mnist")(
    Benchmark(load=load, classes=10, tasks=10, defaults={"model": "mlp", "scenario": "domain"}, change=rotated)
)
