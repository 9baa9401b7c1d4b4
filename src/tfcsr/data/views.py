"""How stored examples become what a model sees: normalised and, in training, shifted and mirrored, a batch at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from tfcsr.data.dataset import Dataset
from tfcsr.errors import SpecError

# Of the image's size: 4 pixels of CIFAR's 32, as is customary there, and 1 of the digits' 8.
PADDED_SHARE = 1 / 8
# Of its side: the square that is cut out.
CUT_SHARE = 1 / 4
# By how much brightness, contrast and saturation are changed at most, in thousandths.
JITTER = 400
# In a row of parameters: shifts and mirror, then the square's centre, then the three colours.
CROP, CUT, COLOUR = slice(0, 3), slice(3, 5), slice(5, 8)


class Views:
    """How the examples of one source are normalised, by numbers in the units they are stored in: without any they go to
    the model as they are, as token ids do. `transform` is a user's own: it gets the stored examples of each batch in
    training, and what it returns is normalised.
    """

    def __init__(
        self,
        mean: Tensor | None,
        std: Tensor | None,
        device: torch.device | str,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.mean = None if mean is None else mean.to(device)
        self.std = None if std is None else std.to(device)
        self.transform = transform

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device | str, *, unit: bool = False) -> "Views":
        """A dataset's, per channel; or `unit`, pixels from 0 to 1 and no more."""

        def per_channel(values: tuple[float, ...]) -> Tensor:
            return (torch.tensor(values) * dataset.scale).reshape(1, -1, 1, 1)

        if unit:
            zero, one = (torch.full((1, len(dataset.mean), 1, 1), value) for value in (0.0, dataset.scale))
            return cls(zero, one, device)
        return cls(per_channel(dataset.mean), per_channel(dataset.std), device)

    def normalised(self, x: Tensor) -> Tensor:
        return normalise(x.to(self.device), self.mean, self.std)


def normalise(x: Tensor, mean: Tensor | None, std: Tensor | None) -> Tensor:
    if mean is None or std is None:
        return x
    seen = (x.float() - mean) / std
    # Channels last, like the models: convolutions and pooling are faster so, on a CPU by a third.
    return seen.contiguous(memory_format=torch.channels_last) if seen.ndim == 4 else seen


def padding(shape: Sequence[int]) -> int:
    """By how many pixels an image [..., height, width] may be shifted."""
    return max(1, int(min(shape[-2:]) * PADDED_SHARE))


def require_croppable(shape: Sequence[int], augment: str) -> None:
    if len(shape) != 3:
        raise SpecError(f"augment {augment} is for images [N, C, H, W], these examples are {tuple(shape)}: use none")
    if min(shape[-2:]) < 2:
        raise SpecError(
            f"augment {augment} shifts images by a pixel or more: {shape[-2]}x{shape[-1]} pixels are too few, 2x2 is"
            " the least; use augment none"
        )


def draw_views(count: int, shape: Sequence[int], generator: Generator, augment: str = "crop-flip") -> Tensor:
    """What is done to each of so many images of this shape, a row of whole numbers each: by how many rows and columns
    it is shifted, and whether it is mirrored; under `strong` also the centre of the square that is cut out, and
    brightness, contrast and saturation in thousandths.
    """
    shifts = torch.randint(2 * padding(shape) + 1, (count, 2), generator=generator)
    drawn = [shifts, torch.randint(2, (count, 1), generator=generator)]
    if augment == "strong":
        drawn += [torch.randint(side, (count, 1), generator=generator) for side in shape[-2:]]
        drawn += [torch.randint(1000 - JITTER, 1001 + JITTER, (count, 3), generator=generator)]
    return torch.cat(drawn, dim=1)


def draw_patches(batches: int, shape: Sequence[int], generator: Generator, share: float) -> Tensor:
    """The patch of each batch, in pixels: from row, to row, from column, to column. About this share of the batches has
    one, of any area and at any place, as CutMix draws it (Yun et al. 2019); the others an empty one.
    """
    chosen, area, *centre = torch.rand(4, batches, generator=generator)
    edges = []
    for side, middle in zip(shape[-2:], centre, strict=True):
        half, middle = area.sqrt() * side / 2, middle * side
        edges += [(middle - half).round().clamp(0, side), (middle + half).round().clamp(0, side)]
    patch: Tensor = torch.stack(edges, dim=1).long()
    return patch.masked_fill((chosen >= share)[:, None], 0)


def own_share(patch: Tensor, shape: Sequence[int]) -> Tensor:
    """How much of an image is its own once it has this patch of another, from 0 to 1."""
    top, bottom, left, right = patch.unbind()
    return 1 - (bottom - top) * (right - left) / (shape[-2] * shape[-1])


def before_it(rows: Tensor, new: int) -> Tensor:
    """For each row of a batch the one before it: of new examples a new one, of replayed ones a replayed one."""
    return torch.cat([rows[:new].roll(1, 0), rows[new:].roll(1, 0)])


def pasted(x: Tensor, patch: Tensor, new: int) -> Tensor:
    """Each image of a batch with this patch of the image before it."""
    top, bottom, left, right = patch.unbind()
    row, column = (torch.arange(side, device=x.device) for side in x.shape[-2:])
    inside = ((row >= top) & (row < bottom))[:, None] & ((column >= left) & (column < right))
    mixed = torch.where(inside, before_it(x, new), x)
    return mixed.contiguous(memory_format=torch.channels_last)


def crop_flip(x: Tensor, crops: Tensor) -> Tensor:
    """Each image padded with black, cropped back to its size and mirrored as its row of `crops` says."""
    _, _, height, width = x.shape
    padded = torch.nn.functional.pad(x, (padding(x.shape),) * 4)
    rows = crops[:, 0, None] + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device).expand(len(x), -1)
    columns = crops[:, 1, None] + torch.where(crops[:, 2, None] == 1, width - 1 - across, across)
    image = torch.arange(len(x), device=x.device)
    return padded[image[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def recoloured(x: Tensor, colours: Tensor) -> Tensor:
    """Each image with its brightness, contrast and saturation multiplied by a row of `colours`, in thousandths."""
    brightness, contrast, saturation = (colours.to(torch.float32)[:, :, None, None, None] / 1000).unbind(dim=1)
    seen = x.float() * brightness
    middle = seen.mean(dim=(1, 2, 3), keepdim=True)
    seen = middle + contrast * (seen - middle)
    if x.shape[1] == 3:
        grey = seen.mean(dim=1, keepdim=True)
        seen = grey + saturation * (seen - grey)
    return seen.clamp(0, 255) if x.dtype == torch.uint8 else seen


def cut_out(x: Tensor, centres: Tensor) -> Tensor:
    """Each image, normalised, with a square around its row of `centres` set to the mean, which is 0."""
    size = max(1, int(min(x.shape[-2:]) * CUT_SHARE))

    def inside(length: int, centre: Tensor) -> Tensor:
        from_start = torch.arange(length, device=x.device) - (centre - size // 2)
        return (from_start >= 0) & (from_start < size)

    rows, columns = inside(x.shape[-2], centres[:, :1]), inside(x.shape[-1], centres[:, 1:])
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)
