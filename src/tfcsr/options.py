"""Settings as values: what a spec field or a part's own option is called, which values it takes, and what it is for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfcsr.errors import SpecError
from tfcsr.registry import Registry


class _Unset:
    """No value at all; `None` is one."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()
_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class Option:
    """One setting. A method, model, policy, schedule or benchmark lists its own; they become flags and spec fields.

        options = (Option("alpha", float, 0.1, "weight of the logits' distance", low=0),)

    `choices` is a tuple of texts, or a registry: the entry that is chosen brings its own options along. `paper` is the
    value under the paper's protocol. `before` is the value that runs had before the option existed, if not the default.
    """

    name: str
    type: Any
    default: Any
    help: str
    choices: "tuple[str, ...] | Registry[Any] | None" = None
    low: float = -math.inf
    high: float = math.inf
    paper: Any = UNSET
    before: Any = UNSET
    read: Callable[[Any], Any] | None = None
    """Instead of the usual checks: takes what was given and returns the value, or raises a SpecError."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise SpecError(
                f"option {self.name!r} cannot be a flag: use letters, digits and underscores, as in alpha_2"
            )
        if self.type not in _KINDS and self.read is None:
            raise SpecError(f"option {self.name} has type {self.type!r}: use int, float, str or bool")
        if self.read is None and not isinstance(self.choices, Registry):
            for value in (self.default, self.paper, self.before):
                if value is not None and value is not UNSET:
                    self.checked(value)

    def names(self) -> list[str]:
        """The values it can take, where they can be listed."""
        if self.choices is None:
            return []
        return self.choices.forms() if isinstance(self.choices, Registry) else list(self.choices)

    def checked(self, value: Any) -> Any:
        """The value as the option's type, within its bounds; text, as from a command line, is read first."""
        if self.read is not None:
            return self.read(value)
        if self.type in (int, float) and isinstance(value, str):
            try:
                value = self.type(value)
            except ValueError:
                raise SpecError(f"{self.name} {value!r} is not {_KINDS[self.type]}") from None
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if isinstance(value, bool) != (self.type is bool) or not isinstance(value, self.type):
            raise SpecError(f"{self.name} {value!r} is not {_KINDS[self.type]}")
        if isinstance(value, str):
            self._check_choice(value)
        elif not isinstance(value, bool) and not self.low <= value <= self.high:
            raise SpecError(f"{self.name} {format_value(value)} is impossible: it must be {self._bounds()}")
        return value

    def _check_choice(self, value: str) -> None:
        if isinstance(self.choices, Registry):
            self.choices.require(value)
        elif self.choices is not None and value not in self.choices:
            raise SpecError(f"unknown {self.name} {value!r}: use one of {', '.join(self.choices)}")

    def _bounds(self) -> str:
        if self.high == math.inf:
            return f"at least {format_value(self.low)}"
        if self.low == -math.inf:
            return f"at most {format_value(self.high)}"
        return f"between {format_value(self.low)} and {format_value(self.high)}"

    @property
    def first(self) -> Any:
        """What it was when nobody had heard of it."""
        return self.default if self.before is UNSET else self.before


def format_value(value: Any) -> str:
    """As a person would type it."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
