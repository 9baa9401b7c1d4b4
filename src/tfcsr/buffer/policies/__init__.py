"""What the buffer keeps. A policy is a function from a stream's position to slots: see `reservoir.py`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfcsr.registry import Registry

if TYPE_CHECKING:
    from torch import Generator, Tensor

    Policy = Callable[[int, int, int, Generator], Tensor]

POLICIES: "Registry[Policy]" = Registry("policy", __name__)
