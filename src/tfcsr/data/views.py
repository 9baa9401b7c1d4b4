"""How stored pixels become what a model sees: normalised and, in training, shifted and mirrored, a batch at once."""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from tfcsr.data.dataset import Dataset
from tfcsr.errors import SpecError

# Of the image's size: 4 pixels of CIFAR's 32, as is customary there, and 1 of the digits' 8.
PADDED_SHARE = 1 / 8


class Views:
    """Normalisation of one dataset, and crop-flip augmentation on its uint8 images."""

    def __init__(self, dataset: Dataset, device: torch.device | str) -> None:
        def per_channel(values: tuple[float, ...]) -> Tensor:
            return (torch.tensor(values) * dataset.scale).reshape(1, -1, 1, 1).to(device)

        self.mean, self.std = per_channel(dataset.mean), per_channel(dataset.std)

    def normalised(self, x: Tensor) -> Tensor:
        return normalise(x, self.mean, self.std)


def normalise(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    # Channels last, like the models: convolutions and pooling are faster so, on a CPU by a third.
    return ((x.float() - mean) / std).contiguous(memory_format=torch.channels_last)


def padding(shape: Sequence[int]) -> int:
    """By how many pixels an image [..., height, width] may be shifted."""
    return max(1, int(min(shape[-2:]) * PADDED_SHARE))


def require_croppable(shape: Sequence[int]) -> None:
    if min(shape[-2:]) < 2:
        raise SpecError(
            f"augment crop-flip shifts images by a pixel or more: {shape[-2]}x{shape[-1]} pixels are too few, 2x2 is"
            " the least; use augment none"
        )


def draw_crops(count: int, shape: Sequence[int], generator: Generator) -> Tensor:
    """Crop-flip parameters [count, 3] for images of this shape: rows and columns to shift by, whether to mirror."""
    shifts = torch.randint(2 * padding(shape) + 1, (count, 2), generator=generator)
    return torch.cat([shifts, torch.randint(2, (count, 1), generator=generator)], dim=1)


def crop_flip(x: Tensor, crops: Tensor) -> Tensor:
    """Each image padded with black, cropped back to its size and mirrored as its row of `crops` says."""
    _, _, height, width = x.shape
    padded = torch.nn.functional.pad(x, (padding(x.shape),) * 4)
    rows = crops[:, 0, None] + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device).expand(len(x), -1)
    columns = crops[:, 1, None] + torch.where(crops[:, 2, None] == 1, width - 1 - across, across)
    image = torch.arange(len(x), device=x.device)
    return padded[image[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
