"""What a benchmark is. Importable without torch or numpy: a spec can be checked before anything heavy is loaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfcsr.errors import DataError
from tfcsr.options import Option

if TYPE_CHECKING:  # numpy is half of what a command takes to start
    from torch import Tensor

    from tfcsr.data.dataset import Dataset

# What is asked at test time: which class of all; which label, whatever the task; or which class of a task that is told.
SCENARIOS = ("class", "domain", "task")


@dataclass(frozen=True)
class Benchmark:
    """A dataset and how it is cut into tasks; `defaults` are the spec fields that differ from the general ones, and
    `options` its own, which `load` gets as keyword arguments.

    With a `change` every task has all classes: it takes uint8 images [N, C, H, W] and a task's number, from 1, and
    gives the images as they look in that task. The only scenario is then `domain`.
    """

    load: "Callable[..., Dataset]"
    classes: int
    tasks: int
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    change: "Callable[[Tensor, int], Tensor] | None" = None

    @property
    def scenarios(self) -> tuple[str, ...]:
        return SCENARIOS if self.change is None else ("domain",)

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
