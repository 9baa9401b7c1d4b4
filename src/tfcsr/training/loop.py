"""The one training loop. Every method trains through it; `methods/base.py` lists where a method may differ."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tfcsr import processes
from tfcsr.buffer.buffer import Buffer
from tfcsr.buffer.policies import POLICIES
from tfcsr.data.tasks import Examples, Task
from tfcsr.data.views import Views, require_croppable
from tfcsr.errors import DivergedError, ProcessError, SpecError
from tfcsr.generators import Generators, derived_seed, seeded
from tfcsr.methods import METHODS
from tfcsr.methods.base import exam_capacity
from tfcsr.methods.learner import Learner
from tfcsr.models import MODELS
from tfcsr.models.batch_norm import synchronise
from tfcsr.models.head import grow, named_head
from tfcsr.recall.exam import Exam
from tfcsr.spec import RunSpec
from tfcsr.training.batches import first_steps, plan_epoch
from tfcsr.training.events import Events
from tfcsr.training.optimizers import exchange, make_optimizer, rates
from tfcsr.training.sharing import settle
from tfcsr.training.step import (
    CapturedSteps,
    CudaCapture,
    PlainSteps,
    Step,
)

# Of a memory, to see whether all processes have the same: enough, if not all.
MOST_COMPARED = 1024
# Below that many steps a run ends before compiling, some 20 s, has paid.
COMPILE_FROM_STEPS = 10_000
# A device takes only so many launches ahead: small turns keep every run's work in its queue.
STEPS_PER_TURN = 4


class Loop:
    """A learner under training, one task after another: all that changes is in `state_dict`. Who leads it, a run
    through a benchmark or a person with data of her own, says what comes next.
    """

    def __init__(
        self,
        spec: RunSpec,
        model: nn.Module,
        views: Views,
        shape: tuple[int, ...],
        classes: int,
        events: Events,
        *,
        dtype: torch.dtype = torch.uint8,
        head: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where a buffer on disk is to lie; without one it is gone with the process."""
        self.spec = spec
        self.events = events
        self.shape = shape
        device = torch.device(spec.device)
        if spec.augment != "none":
            require_croppable(shape, spec.augment)
        if _on_disk(spec) and processes.here().several:
            raise SpecError("buffer_on disk is for one process: use ram, or start it without torchrun")
        self.model = model.to(device)
        if spec.sync_batch_norm and processes.here().several:
            synchronise(self.model)
        self.optimizer = make_optimizer(spec, self.model)
        self.learner = Learner(
            spec=spec,
            model=self.model,
            views=views,
            buffer=_buffer(spec, shape, dtype, classes, device, folder),
            exam=_exam(spec, shape, dtype, device, folder),
            generators=Generators(spec.seed, device),
            emit=self.events.emit,
            classes=classes,
            head=head,
        )
        self.method = self.learner.method = METHODS.get(spec.method)(self.learner)
        self._check_warmup()
        self.task_number = 1  # the task in hand, and the epochs it has had
        self.epoch = 0
        self.mastered = False
        self.epochs_per_task: list[int] = []
        self._epochs_before = 0  # their sum, which is asked for at every step
        self.task_steps = 0  # of the task in hand
        self.optimizer_steps = 0
        self.samples_seen = 0
        self.replay_batches = 0
        self.replayed: int | None = 0
        self.seconds = 0.0

    def use(self, spec: RunSpec) -> None:
        """Go on with another spec: of so many epochs, say."""
        self.spec = self.learner.spec = self.method.spec = spec
        self._check_warmup()

    def _check_warmup(self) -> None:
        if self.spec.warmup_epochs > self.method.epochs():
            raise SpecError(
                f"warmup_epochs {self.spec.warmup_epochs:g} is more than a task's epochs ({self.method.epochs()}):"
                " the rate would never reach lr"
            )

    def require_same_parameters(self) -> None:
        """Refuse to go on where other parameters are trained than the optimizer and the method know of."""
        known = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad != (id(parameter) in known):
                now = "trained" if parameter.requires_grad else "frozen"
                raise SpecError(
                    f"parameter {name} is {now} now and was not when the network first learned: what is frozen is"
                    " decided before that; put it back, or begin a new learner with this network"
                )

    def make_room(self, examples: int, steps: float) -> None:
        """Prepare to take steps on up to so many examples at once; compiled, where there will be enough of them."""
        step = Step(self.learner, self.method, self.optimizer)
        self.steps: PlainSteps | CapturedSteps
        # What a user's transform draws or counts in Python, a recording would do once and never again. Nor can it hold
        # what processes say to each other.
        plain = self.learner.views.transform is not None or processes.here().several
        plain = plain or self.learner.buffer.disk is not None  # which is read in between
        if self.spec.device == "cpu" or plain:
            self.steps = PlainSteps(step)
        else:
            dtype = self.learner.buffer.dtype
            compiled = steps >= COMPILE_FROM_STEPS
            self.steps = CapturedSteps(step, examples, self.shape, CudaCapture(), compiled, dtype=dtype)

    @property
    def epochs_trained(self) -> int:
        return self._epochs_before + self.epoch

    def grow(self, classes: int) -> None:
        """Give the network's head as many outputs. What it knows of the classes it has stays as it is: their weights,
        the optimizer's moments, and what the method and the buffer hold of them.
        """
        before = self.learner.classes
        if classes == before:
            return
        if self.learner.head is None:
            raise SpecError("this network's head has no name, so it cannot grow")
        head = named_head(self.model, self.learner.head)
        old = list(head.parameters(recurse=False))
        grow(head, classes, lambda row: derived_seed(self.spec.seed, f"init/class/{row}"))
        for was, now in zip(old, head.parameters(recurse=False), strict=True):
            exchange(self.optimizer, was, now)
        self.learner.classes = classes
        self.learner.buffer.grow(METHODS.get(self.spec.method).fields(classes) if self.learner.has_buffer else {})
        self.method.grow(before)

    def learn(self, task: Task, data: Examples, boundary: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Train on a task until its epochs are done or its method says so; or on what is left of it. `data` is what its
        new examples are drawn from.

        `boundary` is called between epochs, where the state is whole. Yields whenever some steps are on their way:
        whoever drives several runs on one GPU may turn to another while the device works.
        """
        if not self.model.training:  # else each module stays as it was made: one may be frozen
            self.model.train()
        started = time.perf_counter()
        if self.epoch == 0:
            self.events.emit("task_started", task=task.number, classes=list(task.classes))
            self.learner.exam.take(task.train, self.learner.generators.at(f"exam/{task.number}"))
            self.method.begin_task(task)
            data.release()
            self._require_same(task)
        self.steps.begin_task(data)
        while not self.mastered and self._goes_on():
            self.epoch += 1
            yield from self._train_epoch(task, len(data))
            self.mastered = self.method.end_epoch(task, self.epoch)
            self.seconds += time.perf_counter() - started
            boundary()  # where checkpoints are written, which is not training
            started = time.perf_counter()
        self.method.end_task(task)
        data.release()
        self._require_same(task)
        self.seconds += time.perf_counter() - started

    def next_task(self) -> None:
        """The task in hand is done with."""
        self.epochs_per_task.append(self.epoch)
        self._epochs_before += self.epoch
        self.task_number, self.epoch, self.task_steps, self.mastered = self.task_number + 1, 0, 0, False

    @property
    def _steps_wanted(self) -> int:
        """Of each task; 0: as many as its epochs have."""
        return int(self.spec.get("steps", 0))

    def _goes_on(self) -> bool:
        return self.task_steps < self._steps_wanted if self._steps_wanted else self.epoch < self.method.epochs()

    def _train_epoch(self, task: Task, examples: int) -> Iterator[None]:
        here = processes.here()
        if here.number > 0:  # or rows of different processes would have the same dropout
            self.learner.generators.anew("dropout", f"dropout/{here.number}/{self.epochs_trained}")
        mix = self.method.mix(task, self.epoch)
        rows = None if self.method.sees_all_tasks else self.learner.exam.others(examples)
        plan = plan_epoch(self.learner, examples, mix, self._rates, rows)
        epochs = self.method.passes(examples, sum(map(len, plan)))
        if self._steps_wanted:
            plan = first_steps(plan, self._steps_wanted - self.task_steps)
        steps = sum(map(len, plan))
        losses = torch.empty(steps, device=self.learner.device)
        taken = 0
        for batches in plan:
            for _ in self.steps.take(batches, losses[taken : taken + len(batches)]):
                taken += 1
                self.events.emit("step", task=task.number, epoch=self.epoch, epochs=epochs, step=taken, steps=steps)
                if taken % STEPS_PER_TURN == 0:
                    yield
        yield
        yield from self._caught_up()
        settle(self.model)
        self._check_finite(losses, task)
        self.task_steps += steps
        self.optimizer_steps += steps
        self.samples_seen += sum(batches.samples for batches in plan)
        self.replay_batches += steps if mix.replay else 0
        if self.replayed is not None:
            self.replayed += sum(batches.replay.numel() for batches in plan)
        self.events.emit(
            "epoch_finished",
            task=task.number,
            epoch=self.epoch,
            epochs=epochs,
            loss=float(losses.mean()),
            optimizer_steps=self.optimizer_steps,
            replayed=mix.replay > 0,
        )

    def _caught_up(self) -> Iterator[None]:
        """Until the device has done all that it was given: else the host would wait for it at the first number it asks
        for, and the runs beside this one would run dry meanwhile.
        """
        if self.learner.device.type == "cuda":
            done = torch.cuda.Event()
            done.record()
            while not done.query():
                yield

    def _rates(self, steps: int) -> Tensor | None:
        """The learning rates of an epoch of so many steps. Where steps count, the task's are worth its epochs."""
        epochs = self.method.epochs()
        if not self._steps_wanted:
            return rates(self.spec, self.epoch - 1, epochs, steps, steps)
        per_epoch = self._steps_wanted / epochs
        return rates(self.spec, self.task_steps / per_epoch, epochs, steps, per_epoch)

    def _check_finite(self, losses: Tensor, task: Task) -> None:
        # Once an epoch and not after each step, where a GPU would have to wait for the answer.
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            first = int(bad[0])
            step, value = self.optimizer_steps + first + 1, float(losses[first])
            self.events.emit("failed", task=task.number, epoch=self.epoch, step=step, loss=str(value))
            raise DivergedError(
                f"the loss of {self.spec.method} became {value} at step {step} (task {task.number}, epoch"
                f" {self.epoch}): try a smaller lr (now {self.spec.lr:g}) or penalty"
            )

    def _require_same(self, task: Task) -> None:
        """Processes that train together must have come to the same. Each decides for itself what is kept, replayed and
        mastered: a difference would show as nonsense much later.
        """
        here, learner = processes.here(), self.learner
        if not here.several:
            return
        drawn = {name: state for name, state in learner.generators.state_dict().items() if "dropout" not in name}
        parts = {
            "weights": self.weights_sha256().encode(),
            "memories": _sample([learner.buffer, learner.exam.kept]),
            "random numbers": b"".join(map(_bytes, drawn.values())),
            "probes": str(learner.probes).encode(),
        }
        digests = {what: hashlib.sha256(part).digest() for what, part in parts.items()}
        if here.same(b"".join(digests.values())):
            return
        what = next(what for what, digest in digests.items() if not here.same(digest))
        raise ProcessError(
            f"the {what} of the {here.count} processes differ in task {task.number}, epoch {self.epoch}: use"
            " --deterministic, a model made by the seed alone, or one process"
        )

    _PROGRESS: ClassVar[tuple[str, ...]] = (
        "task_number",
        "epoch",
        "mastered",
        "epochs_per_task",
        "task_steps",
        "optimizer_steps",
        "samples_seen",
        "replay_batches",
        "replayed",
        "seconds",
    )

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during training, as it is between two epochs."""
        exam = {"exam": self.learner.exam.state_dict()} if self.learner.exam.capacity else {}
        return exam | {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": self.learner.buffer.state_dict(),
            "generators": self.learner.generators.state_dict(),
            "method": self.method.state_dict(),
            "probes": list(self.learner.probes),
            "progress": {name: getattr(self, name) for name in self._PROGRESS},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.learner.buffer.load_state_dict(state["buffer"])
        if self.learner.exam.capacity:
            self.learner.exam.load_state_dict(state["exam"])
        self.learner.generators.load_state_dict(state["generators"])
        self.method.load_state_dict(state["method"])
        self.learner.probes = list(state["probes"])
        for name in self._PROGRESS:
            # Since 0.4.0: of a run that began before, nobody knows what it replayed, and its epochs were counted.
            later = {"replayed": None, "task_steps": 0}
            value = state["progress"].get(name, later[name]) if name in later else state["progress"][name]
            setattr(self, name, list(value) if isinstance(value, list) else value)
        self._epochs_before = sum(self.epochs_per_task)

    def weights_sha256(self) -> str:
        """A fingerprint of every weight and statistic: two runs with the same one ended bit for bit alike."""
        digest = hashlib.sha256()
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(_bytes(tensor))
        return digest.hexdigest()


def _bytes(tensor: Tensor) -> bytes:
    found: bytes = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return found


def _sample(memories: list[Buffer]) -> bytes:
    """The labels of all examples, and what some of them are."""
    found = []
    for memory in memories:
        some = torch.arange(0, len(memory), max(1, len(memory) // MOST_COMPARED), device=memory.y.device)
        found += [_bytes(memory.y), _bytes(memory.examples(some))]
    return b"".join(found)


def build_model(spec: RunSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The model with initial weights by the seed. torch initialises from its global generator, which is borrowed for
    that and given back as it was.
    """
    with seeded(derived_seed(spec.seed, "init")):
        make, options = MODELS.get(spec.model), spec.options_of(MODELS, spec.model)
        model = make(shape, classes, **options)
    if not isinstance(model, nn.Module):
        raise SpecError(f"model {spec.model} made a {type(model).__name__}: it must make a torch.nn.Module")
    return channels_last(model)


def channels_last(model: nn.Module) -> nn.Module:
    """The same model with the weights of its convolutions as they are fastest."""
    if any(p.dim() == 5 for p in model.parameters()):  # of three dimensions: torch would refuse
        return model
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _on_disk(spec: RunSpec) -> bool:
    return bool(spec.get("buffer_on") == "disk")


def _exam(spec: RunSpec, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, folder: Path | None) -> Exam:
    capacity, share = exam_capacity(spec), spec.get("exam_share", 0.0)
    return Exam(capacity, shape, device, share=share, dtype=dtype, on_disk=_on_disk(spec), folder=folder)


def _buffer(
    spec: RunSpec,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    classes: int,
    device: torch.device,
    folder: Path | None,
) -> Buffer:
    """Of a method that has the options of one; else one that holds nothing and takes nothing."""
    if spec.get("buffer_capacity") is None:
        return Buffer(0, shape, device=device, dtype=dtype)
    policy = POLICIES.get(spec.policy)(**spec.options_of(POLICIES, spec.policy))
    beside = METHODS.get(spec.method).fields(classes)
    capacity = spec.buffer_capacity - exam_capacity(spec)
    more: dict[str, Any] = {"dtype": dtype, "beside": beside, "on_disk": _on_disk(spec), "folder": folder}
    return Buffer(capacity, shape, policy, device, **more)
