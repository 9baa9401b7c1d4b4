"""Networks. A model is a function of the input's shape and the number of classes, and of its options if it has any:
bring your own with `MODELS.add`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfcsr.registry import Registry

if TYPE_CHECKING:
    from torch import nn

MODELS: "Registry[Callable[..., nn.Module]]" = Registry(
    "model", __name__, beside=("predict", "head", "export", "batch_norm"), families={"timm": "NAME"}
)
