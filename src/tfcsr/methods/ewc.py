"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to past tasks are held in place."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from tfcsr.data.tasks import Examples, Task
    from tfcsr.methods.learner import Learner

FISHER = (
    "how the Fisher information is estimated. `examples`: the mean squared gradient of each example's loss. `exact`:"
    " its expectation over the network's own outputs. `batch`, as in the paper: that of each batch's mean loss"
)


@METHODS.add("ewc")
class ElasticWeightConsolidation(Method):
    """λ Σ_s Σ_i F_s,i (θ_i - θ*_s,i)², one term per past task s, without a factor 1/2.

    The sum over tasks is a parabola in θ_i, kept as its curvature ΣF, its lowest point (the F-weighted mean of the θ*)
    and its value there, updated as a running mean: neither time nor memory grows with the tasks, and nothing cancels.
    """

    options: ClassVar = (
        Option("ewc_lambda", float, 10_000.0, "weight of the penalty", low=0, high=1e12),
        Option(
            "fisher", str, "examples", FISHER, choices=("examples", "exact", "batch"), paper="batch", before="batch"
        ),
    )
    style = ("#CC79A7", "--")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.curvature = [torch.zeros_like(p) for p in self.parameters()]
        self.lowest = [torch.zeros_like(p) for p in self.parameters()]
        self.offset = torch.zeros((), device=self.parameters()[0].device)
        self.known = torch.zeros(learner.classes, dtype=torch.bool, device=learner.device)

    def begin_task(self, task: "Task") -> None:
        self.known[list(task.classes)] = True
        if task.number == 1 and self.spec.fisher != "batch":
            # A network that cannot be asked example by example says so before it is trained, not after.
            self._asked([(self.learner.views.normalised(task.train.x[:2]), task.train.y[:2])], 1)

    def penalty(self) -> "Tensor":
        from tfcsr.methods.distance import squared_distance

        weight: float = self.spec.ewc_lambda
        return weight * (squared_distance(self.parameters(), self.lowest, self.curvature) + self.offset)

    def end_task(self, task: "Task") -> None:
        for i, (p, fisher) in enumerate(zip(self.parameters(), self._fisher(task), strict=True)):
            total = self.curvature[i] + fisher
            share = torch.where(total > 0, fisher / total, 0.0)
            distance = p.detach() - self.lowest[i]
            self.offset += (self.curvature[i] * share * distance.square()).sum()
            self.lowest[i] += share * distance
            self.curvature[i] += fisher

    def _fisher(self, task: "Task") -> "list[Tensor]":
        """Over the task's own training data as it lies, grouped by class."""
        from tfcsr.methods.fisher import BATCH

        size = self.spec.batch_size if self.spec.fisher == "batch" else BATCH
        return self._asked(self._batches(task.train, size), -(-len(task.train) // size))

    def _asked(self, batches: "Iterable[tuple[Tensor, Tensor]]", count: int) -> "list[Tensor]":
        from tfcsr.methods.fisher import SquaredGradients, of_batches
        from tfcsr.models.predict import mode

        model, kind = self.learner.model, self.spec.fisher
        with mode(model, False), self.learner.generators.dropout_at("fisher"):
            if kind == "batch":
                return of_batches(model, self.parameters(), batches, count, self.within)
            gathered = SquaredGradients(model, self.parameters())
            for x, y in batches:
                allowed = self.within(torch.zeros(len(y), self.learner.classes, device=y.device), y) == 0
                gathered.add(x, allowed & self.known, None) if kind == "exact" else gathered.add(x, allowed, y)
        return gathered.mean()

    def _batches(self, examples: "Examples", size: int) -> "Iterator[tuple[Tensor, Tensor]]":
        """As the network takes them."""
        for number, (x, y) in enumerate(zip(examples.x.split(size), examples.y.split(size), strict=True)):
            if number * size % (1 << 14) < size:
                examples.release()
            yield self.learner.views.normalised(self.learner.view(x)), y
