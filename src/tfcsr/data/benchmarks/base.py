"""What a benchmark is. Importable without torch, so that a spec can be checked before anything heavy is loaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfcsr.data.dataset import Dataset


@dataclass(frozen=True)
class Benchmark:
    """A dataset and how it is cut into tasks; `defaults` are the spec fields that differ from the general ones."""

    load: Callable[[str | None], Dataset]
    classes: int
    tasks: int
    defaults: Mapping[str, Any] = field(default_factory=dict)
