"""A network of the timm package by its name there, as in timm:resnet18; needs `pip install 'tfcsr[timm]'`."""

import difflib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import nn


def named(name: str) -> "Callable[..., nn.Module]":
    """The model of that name, as a function of the input's shape and the number of classes."""
    timm = _timm(name)
    # Not what timm would fetch by a path or an address: a model is known by its name.
    if not timm.is_model(name):
        close = ", ".join(f"timm:{match}" for match in difflib.get_close_matches(name, timm.list_models(), 3, 0.0))
        raise SpecError(f"timm has no model {name!r}: the closest are {close}")

    def make(shape: tuple[int, int, int], classes: int, pretrained: bool = False) -> "nn.Module":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = _created(timm, name, shape, classes, pretrained)
                _try_out(model, shape)
        except Exception as error:
            size = "x".join(map(str, shape))
            reason = next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
            raise SpecError(
                f"model timm:{name} cannot be made for inputs of {size}{' with pretrained weights' * pretrained}:"
                f" {reason}; use another model{' or pretrained false' * pretrained}"
            ) from None
        return model

    return make


PRETRAINED = Option("pretrained", bool, False, "begin with timm's weights, which it downloads once")
MODELS.add("timm", options=(PRETRAINED,))(named)  # type: ignore[arg-type]  # a family makes the entry of its name


def _timm(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import timm
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise SpecError(f"model timm:{name} needs {error.name}, which timm does not find: install it") from None
        raise SpecError(f"model timm:{name} needs timm: pip install 'tfcsr[timm]'") from None
    except Exception as error:  # a torchvision of another torch, for one
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SpecError(f"model timm:{name} needs timm, which cannot be imported: {reason}; install it anew") from None
    return timm


def _created(timm: Any, name: str, shape: tuple[int, int, int], classes: int, pretrained: bool) -> "nn.Module":
    channels, *size = shape
    wanted = {"pretrained": pretrained, "num_classes": classes, "in_chans": channels}
    try:
        # Transformers are made for one size of images, and take another only if they are told so.
        made: nn.Module = timm.create_model(name, **wanted, img_size=tuple(size))
    except TypeError as error:
        if "img_size" not in str(error):
            raise
        made = timm.create_model(name, **wanted)
    return made


def _try_out(model: "nn.Module", shape: tuple[int, int, int]) -> None:
    """Many a model is made without a word for images that are too small for it."""
    import torch

    from tfcsr.models.predict import predict

    predict(model, torch.zeros(1, *shape))
