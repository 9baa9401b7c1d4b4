"""What can be asked of a learner: answers, recall, accuracy, and a program that answers as it does."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tfcsr.data.arriving import Arrival, read, read_unlabelled
from tfcsr.data.folders import read_images
from tfcsr.errors import DataError, SpecError
from tfcsr.experiments.machine import settings
from tfcsr.learner.records import Evaluation, Recalled, best_of, by_label, now
from tfcsr.learner.state import State
from tfcsr.models.export import Normalised, export, require_format
from tfcsr.recall.probe import Recall
from tfcsr.training.loop import Loop
from tfcsr.training.staging import rows_in_block


class Asking(State):
    """What a learner answers. Nothing here changes what it knows."""

    def checked(self, x: Any) -> Tensor:
        """Examples in the form this network takes; an error if they do not fit."""
        self._ready()
        assert self._form is not None
        return read_unlabelled(x, self._form).x

    def read_images(self, paths: Sequence[str | Path]) -> np.ndarray:
        """Image files in the form this network takes."""
        self._ready()
        assert self._form is not None
        if not self._form.is_image:
            raise DataError(f"this network was not taught with images: it takes {self._form}")
        channels, height, width = self._form.shape
        found: np.ndarray = read_images(paths, (height, width), channels)
        return found

    def predict(self, x: Any, among: Iterable[Hashable] | None = None) -> np.ndarray:
        """The predicted label of each example, as the user gave it. With `among`, one of these labels: for whoever
        knows which of them can be meant, such as those of one task.
        """
        return self._named(self._asked(x, among, lambda scores: scores.argmax(dim=1)))

    def predict_proba(self, x: Any, among: Iterable[Hashable] | None = None) -> np.ndarray:
        """Class probabilities, one row per example, with columns in the order of `classes`. With `among`, all other
        labels have probability 0.
        """
        found: np.ndarray = self._asked(x, among, lambda scores: scores.float().softmax(dim=1)).cpu().numpy()
        return found

    def _asked(self, x: Any, among: Iterable[Hashable] | None, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """What `answer` makes of the scores, of which only those of some labels count, if given."""
        loop = self._ready()
        assert self._form is not None
        meant = None if among is None else self._numbers(among)

        def of(scores: Tensor) -> Tensor:
            if meant is None:
                return answer(scores)
            others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
            others[meant] = False
            return answer(scores.masked_fill(others, -torch.inf))

        return self._answers(loop, read_unlabelled(x, self._form), of)

    def _numbers(self, labels: Iterable[Hashable]) -> list[int]:
        known = {label: number for number, label in enumerate(self.classes)}
        asked = list(labels)
        if not asked or (missing := [label for label in asked if label not in known]):
            what = f"among has {missing[0]!r}, which was never learned" if asked else "among has no label"
            raise SpecError(f"{what}: the classes are {some_labels(self.classes)}")
        return [known[label] for label in asked]

    def _answers(self, loop: Loop, arrival: Arrival, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """What `answer` makes of the method's scores, some examples at a time: neither the examples nor the scores of
        all of them need fit the memory.
        """
        found = []
        rows = min(rows_in_block(arrival.x[0]), loop.learner.rows_at_once)
        with settings(self.spec):
            for start in range(0, len(arrival.x), rows):
                found.append(answer(loop.method.predict(arrival.x[start : start + rows])))
                if arrival.mapped is not None:
                    arrival.mapped.release()
        return torch.cat(found)

    def _named(self, chosen: Tensor) -> np.ndarray:
        names = self.classes
        kinds = {type(name) for name in names}
        if len(kinds) == 1 and kinds <= {int, str, float, bool}:
            found: np.ndarray = np.array(names)[chosen.cpu().numpy()]
            return found
        mixed = np.empty(len(chosen), object)
        for i, place in enumerate(chosen.tolist()):
            mixed[i] = names[place]
        return mixed

    def evaluate(self, x: Any, y: Any = None) -> Evaluation:
        """Accuracy on labelled examples, overall and per class, with the best so far. A label that was never learned
        counts as wrong. The learner keeps the result.
        """
        loop = self._ready()
        arrival = read(x, y, form=self._form, size=self._size)
        chosen = self._answers(loop, arrival, lambda scores: scores.argmax(dim=1)).cpu().numpy()
        truth = np.array([self._labels.get(label, -1) for label in arrival.labels])[arrival.codes]
        right = chosen == truth
        per_class = {label: 100 * float(right[arrival.codes == i].mean()) for i, label in enumerate(arrival.labels)}
        entry = {
            "when": now(),
            "after": len(self._history.instalments),
            "examples": len(right),
            "accuracy": 100 * float(right.mean()),
            "per_class": {str(self._labels[label]): v for label, v in per_class.items() if label in self._labels},
        }
        self._history.evaluations.append(entry)
        best = by_label(best_of(self._history.evaluations, "per_class"), self.classes)
        return Evaluation(
            accuracy=entry["accuracy"],  # type: ignore[arg-type]
            per_class=per_class,
            best={label: max(value, best.get(label, 0.0)) for label, value in per_class.items()},
            best_accuracy=max(one["accuracy"] for one in self._history.evaluations),
            examples=len(right),
        )

    def recall(self) -> Recalled:
        """Probe the memory now, or its exam if there is one: recall overall and per class. The result also has every
        earlier probe.
        """
        with settings(self.spec):
            recall = self._ask()
        if recall is None:
            keeps = "buffer_capacity" in self.spec.options()
            why = "every example kept was forgotten" if keeps else f"method {self.spec.method} keeps no examples"
            raise SpecError(f"there is nothing to ask about, {why}: evaluate(x, y) says what is known")
        names = self.classes
        per_class = by_label(recall.per_class, names)
        best = by_label(best_of(self._history.instalments, "recall"), names)
        return Recalled(
            overall=recall.overall,
            per_class=per_class,
            kept=self._kept(),
            best={label: max(value, best.get(label, 0.0)) for label, value in per_class.items()},
            history=[entry | {"per_class": by_label(entry["per_class"], names)} for entry in self._history.probes],
            questions=by_label(recall.asked, names),
            exam=len(self._ready().learner.exam) > 0,
        )

    def _ask(self) -> Recall | None:
        """The recall of the memory. It draws from a generator of its own and leaves no trace."""
        learner = self._ready().learner
        if len(learner.asked) == 0:
            return None
        return learner.ask(f"recall/{len(self._history.instalments)}")

    def export(self, path: str | Path) -> Path:
        """Write a self-contained program, to a path that ends in `.pt2` (torch.export) or `.onnx`. It takes examples as
        `predict` does, returns a score for each class, and holds the class names.
        """
        loop = self._ready()
        assert self._form is not None
        path = Path(path)
        require_format(path)
        views, buffer = loop.learner.views, loop.learner.buffer
        with settings(self.spec):
            network = Normalised(loop.method.exported(), views.mean, views.std)
        # Some of the memory, where there is one: the program must answer as the network does.
        example = (
            buffer.examples(torch.arange(min(4, len(buffer))))
            if len(buffer)
            else torch.zeros((2, *self._form.shape), dtype=self._form.dtype)
        )
        export(network, example, [str(label) for label in self.classes], path)
        return path


def some_labels(labels: Sequence[Hashable]) -> str:
    more = f" and {len(labels) - 10} more" if len(labels) > 10 else ""
    return ", ".join(map(str, labels[:10])) + more
