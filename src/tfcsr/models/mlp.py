"""A multilayer perceptron: linear layers with ReLU between them, on inputs of any shape; `--hidden 400,400` by default.

Importable without torch: a spec reads its options.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any

from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.options import Option, format_value

if TYPE_CHECKING:
    from torch import nn

WIDEST = 100_000
DEEPEST = 16


def _hidden(value: Any) -> tuple[int, ...]:
    numbers = value
    if isinstance(value, str):
        try:
            numbers = tuple(int(part) for part in value.split(","))
        except ValueError:
            numbers = None
    elif isinstance(value, int):
        numbers = (value,)
    if not isinstance(numbers, list | tuple) or not numbers or not all(type(number) is int for number in numbers):
        raise SpecError(f"hidden {value!r} is no list of layer sizes: use whole numbers like 400,400")
    if len(numbers) > DEEPEST:
        raise SpecError(f"hidden has {len(numbers)} layers: use at most {DEEPEST}")
    for number in numbers:
        if not 1 <= number <= WIDEST:
            raise SpecError(f"hidden has a layer of {number} units: use 1 to {WIDEST}")
    return tuple(numbers)


HIDDEN = Option(
    "hidden",
    tuple,
    (400, 400),
    f"units of each hidden layer, as a list 400,400; at most {DEEPEST} layers",
    read=_hidden,
)


@MODELS.add("mlp", options=(HIDDEN,))
def mlp(shape: tuple[int, ...], classes: int, hidden: tuple[int, ...] = (400, 400)) -> "nn.Module":
    from torch import nn

    sizes = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    try:
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        raise SpecError(
            f"model mlp with hidden {format_value(hidden)} does not fit into memory: use smaller layers"
        ) from None
