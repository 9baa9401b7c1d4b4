"""DER++ (Buzzega et al. 2020): replay that also recalls the logits an example had when it was stored."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.errors import SpecError
from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch, Mix
from tfcsr.methods.er import WITHOUT_WEIGHTING, ExperienceReplay
from tfcsr.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from tfcsr.buffer.policies.base import Field
    from tfcsr.data.tasks import Task
    from tfcsr.spec import RunSpec


@METHODS.add("derpp")
class DarkExperienceReplay(ExperienceReplay):
    """CE(new) + α MSE(logits, stored logits) + β CE(replayed), the last two on draws of their own, each half a batch.
    The mean squared error is over all logits, as in the authors' code, with which their α goes.

    An example is stored with the logits of the network that has just learned its task: the buffer is filled after it.
    """

    options: ClassVar = (
        *WITHOUT_WEIGHTING,
        Option("alpha", float, 0.1, "weight of the distance to the stored logits", low=0, high=1e6),
        Option("beta", float, 0.5, "weight of the replayed examples' cross-entropy", low=0, high=1e6),
    )
    defaults: ClassVar = {"buffer_fill": "after"}
    scenarios: ClassVar[tuple[str, ...]] = ("class", "domain", "task")
    style = ("#117733", "--")

    @classmethod
    def check(cls, spec: "RunSpec") -> None:
        super().check(spec)
        if spec.buffer_fill == "before":
            raise SpecError("buffer_fill before would store the logits of a network that has yet to learn: use after")

    @classmethod
    def fields(cls, classes: int) -> "Mapping[str, Field]":
        from tfcsr.buffer.policies.base import Field

        return {"logits": Field((classes,), torch.float32, later=float("nan"))}

    def store(self, x: "Tensor", y: "Tensor") -> "dict[str, Tensor]":
        return {"logits": self.learner.logits(x)}

    def mix(self, task: "Task", epoch: int) -> Mix:
        mix = super().mix(task, epoch)
        return Mix(mix.new, 2 * mix.replay, mix.stride)

    def draw(self, batches: int, replay: int) -> "Tensor":
        return torch.cat([super().draw(batches, replay // 2), super().draw(batches, replay // 2)], dim=1)

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        F = torch.nn.functional
        new, middle = batch.new, batch.new + batch.replayed // 2
        reached = self.within(logits, batch.y)
        loss = F.cross_entropy(reached[:new], batch.y[:new])
        if batch.replayed:
            now, stored = logits[new:middle].float(), batch.stored["logits"][: middle - new]
            # Of a class that came later nothing was stored: there is nothing to stay near to.
            distance = F.mse_loss(now, torch.where(stored.isnan(), now.detach(), stored))
            again = F.cross_entropy(reached[middle:], batch.y[middle:])
            loss = loss + self.spec.alpha * distance + self.spec.beta * again
        return loss
