"""What a benchmark is. Importable without torch or numpy: a spec can be checked before anything heavy is loaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfcsr.errors import DataError
from tfcsr.options import Option

if TYPE_CHECKING:  # numpy is half of what a command takes to start
    from tfcsr.data.dataset import Dataset


@dataclass(frozen=True)
class Benchmark:
    """A dataset and how it is cut into tasks; `defaults` are the spec fields that differ from the general ones, and
    `options` its own, which `load` gets as keyword arguments.
    """

    load: "Callable[..., Dataset]"
    classes: int
    tasks: int
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()

    def dataset(self, data_dir: str | None, **options: Any) -> "Dataset":
        """Loaded, and with the classes that were announced."""
        from tfcsr.data.dataset import Dataset

        dataset = self.load(data_dir, **options)
        if not isinstance(dataset, Dataset):
            name = getattr(self.load, "__qualname__", "load")
            raise DataError(f"{name} gives a {type(dataset).__name__}: a benchmark's load must return a Dataset")
        if len(dataset.class_names) != self.classes:
            raise DataError(
                f"dataset {dataset.name} has {len(dataset.class_names)} classes, its benchmark says {self.classes}:"
                " make the two agree"
            )
        return dataset
