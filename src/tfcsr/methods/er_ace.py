"""ER-ACE (Caccia et al. 2022): replay in which new examples compete only with the classes that arrive with them."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch
from tfcsr.methods.er import WITHOUT_WEIGHTING, ExperienceReplay

if TYPE_CHECKING:
    from torch import Tensor


@METHODS.add("er-ace")
class AsymmetricCrossEntropy(ExperienceReplay):
    """The mean cross-entropy of the new examples over the classes among them, plus that of the replayed over all: new
    classes do not push the old ones' logits down.
    """

    options: ClassVar = WITHOUT_WEIGHTING
    scenarios = ("class", "task")
    style = ("#332288", "-")

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        cross_entropy = torch.nn.functional.cross_entropy
        new = batch.y[: batch.new]
        # Marked, not listed: how many classes there are is not known before the device has counted, and nobody waits.
        arriving = (new[:, None] == torch.arange(logits.shape[1], device=new.device)).any(dim=0)
        logits = self.within(logits, batch.y)
        loss = cross_entropy(logits[: batch.new].masked_fill(~arriving, -torch.inf), new)
        if batch.replayed:
            loss = loss + cross_entropy(logits[batch.new :], batch.y[batch.new :])
        return loss
