"""How a learner's network comes about: made or given, with a head for its classes and its examples normalised."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tfcsr.data.arriving import Arrival, Form, statistics
from tfcsr.errors import OutputError, SpecError, TfcsrError
from tfcsr.fingerprint import of_code
from tfcsr.generators import derived_seed, seeded
from tfcsr.models.predict import predict
from tfcsr.spec import RunSpec
from tfcsr.training.loop import build_model

Made = nn.Module | Callable[..., nn.Module]
Transform = Callable[[Tensor], Tensor]
Normalisation = Literal["auto", "none"] | tuple[Any, Any]


def make_model(made_by: Made | None, spec: RunSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The module that was given, or what the function that was given makes, or the spec's model by name."""
    if made_by is None:
        return build_model(spec, shape, classes)
    if isinstance(made_by, nn.Module):
        return made_by
    arguments: tuple[Any, ...] = (shape, classes)
    takes = inspect.signature(made_by)
    if all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in takes.parameters.values()):
        arguments = ()
    try:
        takes.bind(*arguments)
    except TypeError:
        raise SpecError(
            f"the function given as model takes {takes}: let it take (shape, classes), or nothing"
        ) from None
    with seeded(derived_seed(spec.seed, "init")):
        model = made_by(*arguments)
    if not isinstance(model, nn.Module):
        raise SpecError(f"the function given as model made a {type(model).__name__}: it must make a torch.nn.Module")
    return model


class Each:
    """A transform of one example, for a batch of them."""

    def __init__(self, function: Transform) -> None:
        self.function = function

    def __call__(self, x: Tensor) -> Tensor:
        return torch.stack([self.function(one) for one in x])


def code_of(transform: Transform | None) -> str:
    """A transform in a few letters, to be known again."""
    if transform is None:
        return ""
    # As if it were registered in a script: a library's own code is known by its name.
    if isinstance(transform, Each):
        return f"each {of_code(transform.function, '__main__')}"
    return of_code(transform, "__main__")


class Normaliser:
    """How the mean and std of a learner's examples are found: from the first of them, or they are given."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self.given: list[Tensor] = []
        if isinstance(wanted, str) and wanted in ("auto", "none"):
            return
        if not isinstance(wanted, tuple | list) or len(wanted) != 2:
            raise SpecError(f"normalise {wanted!r} is neither 'auto', 'none' nor (mean, std)")
        try:
            self.given = [torch.as_tensor(values, dtype=torch.float32).flatten() for values in wanted]
        except (TypeError, ValueError, RuntimeError):
            raise SpecError(f"normalise {wanted!r} is not (mean, std): give a number for each channel") from None
        mean, std = self.given
        if not bool(mean.isfinite().all() and std.isfinite().all() and (std > 0).all()):
            raise SpecError(f"normalise {wanted!r} has a mean that is not finite, or a std that is not above 0")

    def __call__(self, arrival: Arrival) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """In the units that examples are stored in."""
        x = arrival.x
        if self.wanted == "auto":
            return statistics(arrival)
        if self.wanted == "none" and x.dtype != torch.uint8:
            return None, None
        channels, unit = x.shape[1], 255.0 if x.dtype == torch.uint8 else 1.0
        found = []
        for name, given in zip(("mean", "std"), self.given or (torch.zeros(1), torch.ones(1)), strict=True):
            if len(given) not in (1, channels):
                raise SpecError(
                    f"normalise has a {name} of {len(given)} numbers: give {channels}, one for each channel"
                )
            found.append((given * unit).expand(channels).reshape(1, channels, *(1 for _ in x.shape[2:])).clone())
        return found[0], found[1]

    def to_json(self) -> str | list[list[float]]:
        return [values.tolist() for values in self.given] or str(self.wanted)

    @classmethod
    def from_json(cls, value: Any, folder: Path) -> "Normaliser":
        try:
            return cls(value)
        except SpecError as error:
            raise OutputError(f"{folder / 'spec.json'} cannot be used: {error}") from None


@contextmanager
def taking(form: Form) -> Iterator[None]:
    """What a model says to examples it was not made for, in one line."""
    try:
        yield
    except (TfcsrError, MemoryError):
        raise
    except Exception as error:  # a model may say anything
        problem = str(error).partition("\n")[0] or type(error).__name__
        raise SpecError(f"the model cannot take examples of shape {form.shape}: {problem}") from error


def require_scores(model: nn.Module, x: Tensor, classes: int, head: str | None) -> None:
    """Refuse a model in which another layer than its head decides how many scores there are."""
    try:
        shape = tuple(predict(model, x).shape)
    except Exception:  # it went well before the head had so many outputs
        shape = ()
    if shape != (len(x), classes):
        raise SpecError(
            f"with {classes} outputs of head={head!r} the model does not give {classes} scores for an example: name the"
            " linear layer that gives them"
        )


def normalises_batches(model: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
