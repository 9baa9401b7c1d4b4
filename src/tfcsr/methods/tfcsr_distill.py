"""TFC-SR with distillation: new classes compete among themselves, old ones are held by the network before the task."""

from typing import TYPE_CHECKING, ClassVar

from tfcsr.late import torch
from tfcsr.methods import METHODS
from tfcsr.methods.base import Batch, Mix
from tfcsr.methods.consolidation import Consolidation
from tfcsr.options import Option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tfcsr.data.tasks import Task
    from tfcsr.methods.learner import Learner

RECIPE = {"optimizer": "adamw", "lr": 7e-4, "weight_decay": 0.1, "lr_schedule": "cosine", "warmup_epochs": 1.0}
# At threshold 0 the gap grows whatever is recalled; docs/beyond says why. A short task has no epoch to spare.
DUE = {"replay_epochs": "due", "replay_least": 300, "mastery_threshold": 0.0}
OWN = "classes that new examples compete with: of their `own` task, `all` seen, or `balanced`, all by their shares"
SCALING = "how distill_weight grows: by the `root` of old classes / new classes, or not (`none`)"
FEATURES = "weight of the distillation of features: 1 - their cosine with those before the task"
CUTMIX = "share of the batches whose images get a patch of another image (CutMix); none with augment none"


@METHODS.add("tfcsr-distill")
class DistilledConsolidation(Consolidation):
    """CE(new, over their own classes) + CE(replayed, over all seen) + √(old / new classes) (w T² KL + v (1 - cos)).

    The first two as in ER-ACE (Caccia et al. 2022). The others, on all images, from the network before the task to this
    one: of its answers over old classes (LwF, Li & Hoiem 2016) and of its features (LUCIR, Hou et al. 2019). CutMix
    (Yun et al. 2019) mixes images, the memory is herded (iCaRL, Rebuffi et al. 2017). Told tasks keep answers apart.
    """

    options: ClassVar = (
        *(option for option in Consolidation.options if option.name != "weighting"),
        Option("distill_weight", float, 0.5, "weight of the distillation loss", low=0, high=1e6),
        Option("distill_scaling", str, "root", SCALING, choices=("root", "none")),
        Option("temperature", float, 4.0, "temperature of the distillation", low=0.01, high=1e3),
        Option("new_classes", str, "own", OWN, choices=("own", "all", "balanced")),
        Option("feature_weight", float, 1.0, FEATURES, low=0, high=1e6),
        Option("cutmix", float, 0.5, CUTMIX, low=0, high=1),
    )
    defaults: ClassVar = {"policy": "herding", **DUE, **RECIPE}
    version = 2
    scenarios = ("class", "task")
    reads_features = True
    style = ("#B2182B", "-")

    def __init__(self, learner: "Learner") -> None:
        super().__init__(learner)
        self.old: nn.Module | None = None
        # As tensors that are changed in place: a recorded step goes on reading them.
        none = torch.zeros(learner.classes, dtype=torch.bool, device=learner.device)
        self.past, self.arriving, self.own, self.rivals = (none.clone() for _ in range(4))
        self.raised = none.float()  # what is added to logits where classes count by their share

    def begin_task(self, task: "Task") -> None:
        self.past.copy_(self.known)
        super().begin_task(task)
        self.arriving.zero_()[list(task.classes)] = True
        self.own.copy_(self.arriving if self.spec.new_classes == "own" else self.known)
        if task.number > 1 and (self.spec.distill_weight or self.spec.feature_weight):
            self.old = self.learner.frozen_copy(self.old)

    def replays(self, task: "Task", epoch: int) -> bool:
        # A single class has nobody to compete with among its own: it is learned by replay alone.
        alone = len(task.classes) == 1 and self._replays_due()
        return task.number > 1 and (alone or super().replays(task, epoch))

    def mix(self, task: "Task", epoch: int) -> Mix:
        mix = super().mix(task, epoch)
        self.rivals.copy_(self.known)
        if self.among:  # a class of which nothing is replayed is not to be pushed away
            self.rivals.zero_()[self.among] = True
        if self.spec.new_classes == "balanced":
            from tfcsr.methods.distillation import log_shares

            kept = self.learner.buffer.y[: len(self.learner.buffer) if mix.replay else 0]
            self.raised.copy_(log_shares(task.train.y, kept, self.rivals))
        return mix

    def loss(self, batch: Batch, logits: "Tensor") -> "Tensor":
        from tfcsr.methods.distillation import by_labels, drift

        fused, task_of = self.learner.fused, self.learner.task_of
        loss: Tensor
        loss, right = fused(by_labels)(batch, logits, self.own, self.rivals, self.raised, self.arriving, task_of)
        self.answered(right, batch.new)
        if self.old is not None:
            with torch.no_grad():
                before = self.learner.with_features(self.old, batch.x)
            now, T = (logits, batch.features), self.spec.temperature
            answers, features, scale = fused(drift)(before, now, self.past, self.arriving, T, task_of)
            drifted = self.spec.distill_weight * answers + self.spec.feature_weight * features
            loss = loss + (scale * drifted if self.spec.distill_scaling == "root" else drifted)
        return loss
