"""Examples as they arrive from a person: arrays, tensors, a torch Dataset, an image folder or an .npz, brought into one
form and checked once.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tfcsr import fingerprint
from tfcsr.data import folders, npz
from tfcsr.data.mapped import Mapped
from tfcsr.data.packed import pack
from tfcsr.errors import DataError

CHUNK_BYTES = 64 << 20
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
IDS = (torch.int8, torch.int16, torch.int32, torch.int64)

Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Form:
    """What every example of a learner is like, as the first ones were."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{_name(self.dtype)} [N, {', '.join(map(str, self.shape))}]"

    @property
    def is_image(self) -> bool:
        return self.dtype == torch.uint8 and len(self.shape) == 3


@dataclass(frozen=True)
class Arrival:
    """Examples that arrived together: each with the number of its label in `labels`, which are in order of first sight.
    Those that are only to be asked about have none.
    """

    x: Tensor
    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    labels: tuple[Hashable, ...] = ()
    source: str = ""
    mapped: Mapped | None = None
    mean: Tensor | None = None  # where it is known already: of every channel, in the units of x
    std: Tensor | None = None
    known_as: str = ""
    skipped: tuple[str, ...] = ()

    @property
    def form(self) -> Form:
        return Form(tuple(self.x.shape[1:]), self.x.dtype)

    def fingerprint(self) -> str:
        """Of the examples and their labels."""
        names = repr([self.labels[i] for i in range(len(self.labels))]).encode()
        parts = [self.codes, np.frombuffer(names, np.uint8)]
        if self.known_as:
            parts.append(np.frombuffer(self.known_as.encode(), np.uint8))
        else:
            parts.append(_bytes(self.x))
        return fingerprint.of_arrays(parts)


def read(
    x: Any,
    y: Any = None,
    *,
    form: Form | None = None,
    size: int | None = None,
    skip_unreadable: bool = False,
    progress: Progress = _silent,
) -> Arrival:
    """What a person gave to learn from. `form` is what the learner's examples are like, once it has seen some; images
    in a folder are brought to that, or to `size`.
    """
    if isinstance(x, str | Path):
        if y is not None:
            raise DataError(f"{x} has labels of its own: leave y out")
        arrival = _from_path(Path(x), form, size, skip_unreadable, progress)
    elif y is None or isinstance(x, DataLoader):
        arrival = _from_dataset(x)
    else:
        arrival = _labelled(as_tensor(x), y, "arrays")
    return _checked(arrival, form)


def read_unlabelled(x: Any, form: Form) -> Arrival:
    """What a person wants to know about."""
    if isinstance(x, str | Path):
        x = [x] if Path(x).suffix != ".npz" else npz.read_examples(Path(x))
    if isinstance(x, list | tuple) and x and all(isinstance(one, str | Path) for one in x):
        if not form.is_image:
            raise DataError(f"this network was not taught with images: it takes examples {form}, not files")
        paths = [path for one in x for path in images(Path(one))]
        x = folders.read_images(paths, (form.shape[1], form.shape[2]), form.shape[0])
    elif _is_dataset(x):
        x = _stacked([part[0] if isinstance(part, list | tuple) else part for part in _items(x)])
    return _checked(Arrival(as_tensor(x)), form)


def images(path: Path) -> list[Path]:
    """The images in a folder, or the file itself."""
    return folders.images_in(path) if path.is_dir() else [path]


def _from_path(path: Path, form: Form | None, size: int | None, skip_unreadable: bool, progress: Progress) -> Arrival:
    if path.suffix == ".npz":
        arrays = npz.read(path)
        return _labelled(as_tensor(arrays.train_x), arrays.train_y, str(path))
    if form is not None and not form.is_image:
        raise DataError(f"{path} is a folder of images, this network takes examples {form}")
    wanted: Any = size
    channels = None
    if form is not None:
        if size is not None and (size, size) != form.shape[1:]:
            raise DataError(
                f"size {size} differs from the {form.shape[1]}x{form.shape[2]} pixels the network has learned"
            )
        wanted, channels = (form.shape[1], form.shape[2]), form.shape[0]
    where = folders.splits(path)["train"]
    packed = pack(where, size=wanted, channels=channels, skip_unreadable=skip_unreadable, progress=progress)
    per_channel = (1, -1, 1, 1)
    return Arrival(
        packed.x.tensor,
        packed.y,
        packed.class_names,
        str(path),
        packed.x,
        torch.tensor(packed.mean).reshape(per_channel) * 255,
        torch.tensor(packed.std).reshape(per_channel) * 255,
        packed.fingerprint,
        packed.skipped,
    )


def _is_dataset(x: Any) -> bool:
    if isinstance(x, np.ndarray | Tensor | list | tuple | dict):
        return False
    return hasattr(x, "__getitem__") and hasattr(x, "__len__")


def _from_dataset(data: Any) -> Arrival:
    if isinstance(data, DataLoader):
        raise DataError("learn makes its own batches: give the dataset, not its DataLoader")
    if isinstance(data, TensorDataset):
        if len(data.tensors) != 2:
            raise DataError(f"a TensorDataset of {len(data.tensors)} tensors: give one of two, examples and labels")
        return _labelled(as_tensor(data.tensors[0]), data.tensors[1], "dataset")
    if not isinstance(data, IterableDataset) and not _is_dataset(data):
        raise DataError(f"labels are missing: a {type(data).__name__} needs y, one label for each example")
    pairs = list(_items(data))
    if not pairs or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs):
        raise DataError("the dataset does not give pairs (example, label)" if pairs else "the dataset is empty")
    return _labelled(_stacked([pair[0] for pair in pairs]), [pair[1] for pair in pairs], "dataset")


def _items(data: Any) -> Iterable[Any]:
    return data if isinstance(data, IterableDataset) else (data[i] for i in range(len(data)))


def _example(value: Any) -> Tensor:
    if hasattr(value, "getbands"):  # an image of Pillow's
        array = np.array(value)
        return torch.from_numpy(array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0).copy())
    return value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))


def _stacked(values: Sequence[Any]) -> Tensor:
    try:
        examples = [_example(value) for value in values]
    except (TypeError, ValueError) as error:
        raise DataError(f"x cannot be used: {error}; a dataset must give numbers or images") from None
    if not examples:
        raise DataError("the dataset is empty")
    shapes = {tuple(example.shape) for example in examples}
    if len(shapes) > 1:
        some = " and ".join(map(str, sorted(shapes)[:2]))
        raise DataError(f"examples of different shapes ({some}): bring them to one")
    return as_tensor(torch.stack(examples))


def as_tensor(x: Any) -> Tensor:
    """The examples as a tensor of a type that is stored as it is; fractions of double precision as single."""
    if not isinstance(x, Tensor):
        try:
            array = np.asarray(x)
            if array.dtype.kind == "f" and array.dtype.itemsize > 2:
                with np.errstate(over="ignore"):  # what becomes infinite is refused below
                    array = array.astype(np.float32, copy=False)
            x = torch.from_numpy(np.require(array.astype(array.dtype.newbyteorder("="), copy=False), None, ["C", "W"]))
        except (TypeError, ValueError) as error:
            raise DataError(f"x cannot be used: {error}; give numbers, [N, ...] with examples of one shape") from None
    found: Tensor = x.detach()
    if found.dtype == torch.float64:
        found = found.float()
    if found.dtype == torch.bool:
        found = found.float()
    if found.dtype not in (torch.uint8, *FLOATS, *IDS):
        raise DataError(f"x is {_name(found.dtype)}: give uint8, integers or floating-point numbers")
    return found


def _labelled(x: Tensor, y: Any, source: str) -> Arrival:
    if x.ndim == 0:
        raise DataError("x is one number: give examples, [N, ...]")
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise DataError(f"y has shape {y.shape}: give one label for each example, [N]")
    if isinstance(y, np.ndarray) and y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "backslashreplace")
    try:
        values = y.tolist() if isinstance(y, np.ndarray) else [_plain(label) for label in y]
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"y {str(y)[:40]} cannot be labels: {error}; give one for each example") from None
    if len(values) != len(x):
        raise DataError(f"{len(x)} examples and {len(values)} labels: give one for each")
    numbers: dict[Hashable, int] = {}
    try:
        codes = [numbers.setdefault(label, len(numbers)) for label in values]
    except TypeError as error:
        raise DataError(f"a label cannot be told from others: {error}") from None
    for label in numbers:
        if label is None or label != label:
            raise DataError(f"a label is {label}: give every example one")
    return Arrival(x, np.array(codes, np.int64), tuple(numbers), source)


def _plain(label: Any) -> Any:
    """What numpy and torch wrap, unwrapped: 3 and np.int64(3) are one label."""
    if type(label) is tuple:
        return tuple(_plain(part) for part in label)
    return label.item() if isinstance(label, np.generic | Tensor) else label


def _checked(arrival: Arrival, form: Form | None) -> Arrival:
    x = arrival.x
    if x.ndim < 2 or x.numel() == 0:
        raise DataError(f"x has shape {tuple(x.shape)}: give at least one example, [N, ...]")
    if form is not None:
        if arrival.form.shape != form.shape:
            raise DataError(f"examples are {arrival.form}, the network takes {form}")
        if x.dtype != form.dtype:
            if x.dtype in FLOATS and form.dtype in FLOATS:
                x = x.to(form.dtype)
            elif x.dtype in IDS and form.dtype in IDS:
                low, high, limits = int(x.min()), int(x.max()), torch.iinfo(form.dtype)
                if low < limits.min or high > limits.max:
                    raise DataError(f"x goes from {low} to {high}, the network was taught with {_name(form.dtype)}")
                x = x.to(form.dtype)
            else:
                raise DataError(f"x is {_name(x.dtype)}, the network was taught with {_name(form.dtype)}: convert it")
    if x.dtype in FLOATS:
        for start, part in in_chunks(x):
            bad = (~part.isfinite()).flatten(1).any(dim=1).nonzero()
            if len(bad):
                raise DataError(f"example {start + int(bad[0])} of x is not finite: mend or remove it")
    return arrival if x is arrival.x else Arrival(**{**vars(arrival), "x": x})


def in_chunks(x: Tensor, size: int = CHUNK_BYTES) -> Iterable[tuple[int, Tensor]]:
    """Some of the examples at a time, with the number of the first."""
    rows = max(1, size // max(1, x[0].nbytes))
    return ((start, x[start : start + rows]) for start in range(0, len(x), rows))


def statistics(arrival: Arrival) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Mean and standard deviation of every channel or feature (the first dimension of an example), in the units of x;
    none of numbers that are ids.
    """
    if arrival.mean is not None and arrival.std is not None:
        return arrival.mean, arrival.std
    x = arrival.x
    if x.dtype in IDS:
        return None, None
    others = [d for d in range(x.ndim) if d != 1]
    count = x.numel() // x.shape[1]
    shape = (1, -1, *(1 for _ in range(x.ndim - 2)))
    mean, squares = torch.zeros(2, x.shape[1], dtype=torch.float64, device=x.device)
    if x.dtype == torch.uint8:  # of numbers so small a mean of squares loses nothing: one pass will do
        for _, part in in_chunks(x, CHUNK_BYTES // 8):
            seen = part.reshape(*part.shape[:2], -1).float()
            mean += seen.sum(dim=2).double().sum(dim=0)
            squares += seen.square_().sum(dim=2).double().sum(dim=0)
        mean /= count
        std = (squares / count - mean.square()).clamp(min=0).sqrt()
    else:
        for _, part in in_chunks(x):
            mean += part.double().sum(dim=others)
        mean /= count
        for _, part in in_chunks(x):
            squares += (part.double() - mean.reshape(shape)).square().sum(dim=others)
        std = (squares / count).sqrt()
    std[std < 1e-7 * (1 + mean.abs())] = 1.0  # a channel that never changes is left where it is
    return mean.float().reshape(shape).cpu(), std.float().reshape(shape).cpu()


def _bytes(x: Tensor) -> np.ndarray:
    array: np.ndarray = x.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return array


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
