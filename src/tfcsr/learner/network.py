"""How a learner's network comes about: made or given, with a head for its classes and its examples normalised."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tfcsr.data.arriving import Arrival, Form, statistics
from tfcsr.errors import SpecError
from tfcsr.generators import derived_seed, seeded
from tfcsr.models.predict import predict
from tfcsr.spec import RunSpec
from tfcsr.training.loop import build_model, channels_last

Made = nn.Module | Callable[..., nn.Module]
Transform = Callable[[Tensor], Tensor]
Normalisation = Literal["auto", "none"] | tuple[Any, Any]


def make_model(made_by: Made | None, spec: RunSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The module that was given, or what the function that was given makes, or the spec's model by name."""
    if made_by is None:
        return build_model(spec, shape, classes)
    if isinstance(made_by, nn.Module):
        return channels_last(made_by)
    needed = [
        p
        for p in inspect.signature(made_by).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    with seeded(derived_seed(spec.seed, "init")):
        model = made_by(shape, classes) if needed else made_by()
    if not isinstance(model, nn.Module):
        raise SpecError(f"the function given as model made a {type(model).__name__}: it must make a torch.nn.Module")
    return channels_last(model)


class Each:
    """A transform of one example, for a batch of them."""

    def __init__(self, function: Transform) -> None:
        self.function = function

    def __call__(self, x: Tensor) -> Tensor:
        return torch.stack([self.function(one) for one in x])


def plain_function(transform: Transform) -> Transform:
    return transform.function if isinstance(transform, Each) else transform


def normalisation(wanted: Normalisation) -> Callable[[Arrival], tuple[Tensor, Tensor] | tuple[None, None]]:
    if wanted == "auto":
        return statistics
    if wanted == "none":
        return lambda arrival: _per_channel(arrival, (0.0,), (1.0,)) if arrival.x.dtype == torch.uint8 else (None, None)
    if not isinstance(wanted, tuple | list) or len(wanted) != 2:
        raise SpecError(f"normalise {wanted!r} is neither 'auto', 'none' nor (mean, std)")
    return lambda arrival: _per_channel(arrival, *wanted)


def _per_channel(arrival: Arrival, mean: Any, std: Any) -> tuple[Tensor, Tensor]:
    """Given numbers, in the units that examples are stored in."""
    channels, unit = arrival.x.shape[1], 255.0 if arrival.x.dtype == torch.uint8 else 1.0
    found = []
    for name, values in (("mean", mean), ("std", std)):
        given = torch.as_tensor(values, dtype=torch.float32).flatten()
        if len(given) not in (1, channels) or not bool(given.isfinite().all()):
            raise SpecError(f"normalise has a {name} of {len(given)} numbers: give {channels}, one for each channel")
        found.append((given * unit).expand(channels).reshape(1, channels, *(1 for _ in arrival.x.shape[2:])).clone())
    if bool((found[1] <= 0).any()):
        raise SpecError("normalise has a std that is not above 0")
    return found[0], found[1]


@contextmanager
def taking(form: Form) -> Iterator[None]:
    """What a model says to examples it was not made for, in one line."""
    try:
        yield
    except SpecError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        problem = str(error).partition("\n")[0]
        raise SpecError(f"the model cannot take examples of shape {form.shape}: {problem}") from None


def require_scores(model: nn.Module, x: Tensor, classes: int, head: str | None) -> None:
    found = predict(model, x)
    if tuple(found.shape) != (len(x), classes):
        raise SpecError(
            f"the model gives {tuple(found.shape)[1:]} scores for an example with {classes} classes: head={head!r} is"
            " not the layer that gives them; name the one that does"
        )


def normalises_batches(model: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
