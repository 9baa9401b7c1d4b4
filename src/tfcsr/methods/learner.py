"""The network and all it learns with: what a method works on."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tfcsr import processes
from tfcsr.buffer.buffer import Buffer
from tfcsr.data.tasks import Examples
from tfcsr.data.views import Views, crop_flip, draw_views
from tfcsr.errors import SpecError
from tfcsr.generators import Generators
from tfcsr.methods.base import NEVER, Method, within
from tfcsr.models.head import Body, features, in_two
from tfcsr.models.predict import PART_ON_GPU, predict
from tfcsr.recall.exam import Exam
from tfcsr.recall.probe import Recall, graded, score
from tfcsr.spec import RunSpec

# Of a large memory so many are asked once a task is learned: enough for half a point.
MOST_ASKED = 10_000
# Scores of examples, one for each class, that are held at once.
MOST_SCORES = 2**22


@dataclass
class Learner:
    """The loop makes it and trains it; a method works on it."""

    spec: RunSpec
    model: nn.Module
    views: Views
    buffer: Buffer
    generators: Generators
    emit: Callable[..., None]
    classes: int
    head: str | None = None
    """The name of the network's last linear layer; None: the last one there is."""
    exam: Exam = field(default_factory=lambda: Exam(0, ()))
    probes: list[dict[str, Any]] = field(default_factory=list)
    forward: Callable[[nn.Module, Tensor], Tensor] = lambda network, x: network(x)
    """Asks a network, this one or a frozen copy, for its answer to a batch; compiled, where steps are."""
    forward_in_two: Callable[[nn.Module, nn.Module, Tensor], tuple[Tensor, Tensor]] = in_two
    """The same for a network in two parts, up to its head and the head: the answer, and what the head was fed with."""
    fused: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    """Compiles a function of tensors into one program, where steps are compiled; elsewhere it stays as it is. A loss of
    many small operations is many launches otherwise. The function is a module's own: all runs share the program.
    """
    task_of: Tensor | None = None
    """In scenario `task`, the task of each class: whoever asks says which task it is."""
    method: Method = field(init=False)
    _bodies: "WeakKeyDictionary[nn.Module, Body]" = field(default_factory=WeakKeyDictionary, repr=False)

    @property
    def device(self) -> torch.device:
        return self.buffer.y.device

    @property
    def has_buffer(self) -> bool:
        return self.buffer.capacity > 0

    def view(self, x: Tensor) -> Tensor:
        """A view of new examples as training would show them, not yet normalised."""
        if self.spec.augment == "none":
            return x
        return crop_flip(x, draw_views(len(x), x.shape, self.generators["augmentation"]).to(x.device))

    def remember(self, examples: Examples) -> None:
        """Let examples pass through the buffer, and store beside those that stay what the method wants there. Under a
        frozen replay view each is stored as one augmented view.
        """
        x = self.view(examples.x) if self.spec.get("replay_view") == "frozen" else examples.x
        changes = self.buffer.add(
            x,
            examples.y,
            self.generators["reservoir"],
            self.features,
            self.gradients,
            self.exam.others(len(examples)),
        )
        slots, rows = changes.arrived()
        if type(self.method).store is Method.store:
            return  # nothing is stored beside them
        # In blocks: what has arrived may be most of a large task.
        for some in torch.arange(len(slots), device=slots.device).split(self.buffer.block):
            row = rows[some]
            # The examples may lie elsewhere than the labels and the buffer.
            self.buffer.write(slots[some], **self.method.store(x[row.to(x.device)], examples.y[row]))

    def precision(self) -> AbstractContextManager[Any]:
        """The arithmetic of forward passes. Casts are not cached: a captured step must make them anew each time."""
        enabled = self.spec.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    def logits(self, x: Tensor, *, train_mode: bool = False) -> Tensor:
        """What the network says to stored images. It leaves no trace, but for batch-norm statistics in train mode."""
        with self.precision(), self.generators.dropout_at("asked"):

            def ask(part: Tensor) -> Tensor:
                return predict(self.model, part, self.views.normalised, train_mode=train_mode)

            # In train mode all examples together move the statistics.
            return ask(x) if train_mode else processes.here().asked(ask, x)

    def features(self, x: Tensor) -> Tensor:
        """What the network's last layer is fed with for stored images."""
        with self.precision(), self.generators.dropout_at("asked"):
            return processes.here().asked(
                lambda part: features(self.model, part, self.views.normalised, head=self.head), x
            )

    def with_features(self, network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """What a network, this one or a frozen copy, answers to a batch, and its features: with gradients, in the mode
        it is in.
        """
        if network not in self._bodies:
            self._bodies[network] = Body(network, self.head)
        body = self._bodies[network]
        logits, fed = self.forward_in_two(body.of(network), body.head, x)
        return logits, fed.float().flatten(1)

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Of stored images: what the network answers less their labels, and their features. The outer product of both
        is the gradient of an image's loss in the last layer.
        """
        # In doubles: of an image that is known well, an error of 1e-8 still tells something.
        answers = self.logits(x).double().softmax(dim=1)
        return answers - nn.functional.one_hot(y, answers.shape[1]), self.features(x)

    def frozen_copy(self, before: nn.Module | None = None) -> nn.Module:
        """The network as it is now, in eval mode, never to be trained: to compare with later. An earlier copy is
        brought up to date, where it lies.
        """
        if before is None:
            return copy.deepcopy(self.model).eval().requires_grad_(False)
        before.load_state_dict(self.model.state_dict())
        return before

    def within(self, scores: Tensor, y: Tensor, otherwise: float = NEVER) -> Tensor:
        """Scores [N, classes] of examples with these labels; where tasks are told, with those of all other tasks'
        classes set to `otherwise`.
        """
        return within(scores, y, self.task_of, otherwise)

    def answers(self, scores: Tensor, y: Tensor) -> Tensor:
        """The class of the highest score, among those that can be meant."""
        return self.within(scores, y, -torch.inf).argmax(dim=1)

    @property
    def rows_at_once(self) -> int:
        """How many examples a method is asked about at once: what it says of each class, for all of them, would be as
        large as both are many. Whole parts as a network is asked in, or the last bits would depend on where they end.
        """
        return max(1, MOST_SCORES // max(1, self.classes) // PART_ON_GPU) * PART_ON_GPU

    def chosen(self, x: Tensor, y: Tensor, among: Tensor | None = None) -> Tensor:
        """The method's answers to stored images with these labels; among some classes, if given."""
        found, rows = [], self.rows_at_once
        for some, labels in zip(x.split(rows), y.split(rows), strict=True):
            scores = self.method.predict(some)
            if among is None:
                found.append(self.answers(scores, labels))
            else:
                found.append(among[self.within(scores, labels, -torch.inf)[:, among].argmax(dim=1)])
        return torch.cat(found)

    def accuracy(self, examples: Examples) -> float:
        if len(examples) == 0:
            raise SpecError("there is nothing to measure on: raise held_out, so that some examples are held out")
        right = self.chosen(examples.x, examples.y) == examples.y
        return 100 * int(right.sum()) / len(examples)

    def recall(self, task: int, epoch: int) -> Recall:
        """One memory check, by the spec's probe mode.

        All but the placebo draw from a generator of that epoch's own: what a probe finds does not depend on which
        probes there were before it.
        """
        count = min(self.spec.probe_size, len(self.asked))
        if self.spec.probe_mode == "placebo":
            self.buffer.draw(1, min(count, len(self.buffer)), self.generators["replay"])
            return Recall(100.0, {})
        return self.ask(f"probe/{task}/{epoch}", count, train_mode=self.spec.probe_mode == "train")

    @property
    def asked(self) -> Buffer:
        """What a probe asks of: the exam, where there is one; else the examples that are also replayed."""
        return self.exam.kept if len(self.exam) else self.buffer

    def ask(self, moment: str, count: int = MOST_ASKED, *, train_mode: bool = False) -> Recall:
        """What is recalled of so many examples of the memory, with the choice restricted to the classes in it. They are
        drawn by a generator of this moment's own.
        """
        asked = self.asked
        chosen = asked.draw(1, min(count, len(asked)), self.generators.at(moment))[0]
        x, y, kept = asked.examples(chosen), asked.y[chosen], self.classes_kept()
        if train_mode:  # all examples together move the statistics
            return score(self.within(self.logits(x, train_mode=True), y, -torch.inf), y, kept)
        return graded(self.chosen(x, y, kept), y, self.classes)

    def classes_kept(self) -> Tensor:
        """The classes of which the memory has examples, ascending."""
        if len(self.exam) == 0:
            return self.buffer.classes()
        present: Tensor = torch.cat([self.buffer.classes(), self.exam.kept.classes()]).unique()
        return present

    def record_probe(self, task: int, epoch: int, recall: Recall, passed: bool, next_epoch: int | None) -> None:
        found = {"task": task, "epoch": epoch, "recall": recall.overall, "passed": passed, "next_epoch": next_epoch}
        self.probes.append(found)
        self.emit("probe", **found, per_class=recall.per_class)
