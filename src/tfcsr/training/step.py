"""One training step, and the ways to take the many steps of an epoch: one by one, or captured once and replayed."""

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from tfcsr import processes
from tfcsr.data.tasks import Examples
from tfcsr.errors import SpecError
from tfcsr.methods.base import Batch, Method
from tfcsr.methods.learner import Learner
from tfcsr.models.head import in_two
from tfcsr.training.batches import Batches, compose
from tfcsr.training.optimizers import set_rate
from tfcsr.training.sharing import shared
from tfcsr.training.staging import staged

# Steps taken one by one before a shape is captured: they let libraries choose kernels and allocate their workspaces.
WARM_UP = 3
MOST_PROGRAMS = 64


def _call(model: nn.Module, x: Tensor) -> Tensor:
    logits: Tensor = model(x)
    return logits


class Step:
    """Compose the batch, forward, loss, backward, optimizer, and the method's say in it."""

    def __init__(self, learner: Learner, method: Method, optimizer: torch.optim.Optimizer) -> None:
        self.learner = learner
        self.method = method
        self.optimizer = optimizer
        self.compiled = False

    def compile(self, data: Examples) -> None:
        """Through torch's compiler where it is installed, by functions that all runs of a process share, whatever the
        size of their buffers and tasks.
        """
        self.compiled = _has_compiler()
        if self.compiled:
            for tensor in (data.x, data.y, *(self.learner.buffer.fields[name] for name in ("x", "y"))):
                torch._dynamo.maybe_mark_dynamic(tensor, 0)

    def __call__(self, data: Examples, positions: Batches, *, often: bool = True) -> Tensor:
        """One step on the batch at these positions, a single row; its loss. A shape of batch that does not come often,
        an epoch's odd last, is not worth compiling.
        """
        buffer, views = self.learner.buffer, self.learner.views
        through = _compiled if self.compiled and often else _as_it_is
        composed, self.learner.fused = through(compose), through
        self.learner.forward, self.learner.forward_in_two = shared(through(_call)), shared(through(in_two))
        row = [None if t is None else t[0] for t in positions.positions()]
        old = buffer.fields.get("x"), buffer.y
        if buffer.disk is not None:  # what is replayed is read first, and is all the batch needs of the buffer
            replayed = positions.replay[0]
            old = buffer.examples(replayed), buffer.y[replayed]
            row[1] = torch.arange(len(replayed), device=replayed.device)
        with self._drawing():
            x, y = composed(data.x, data.y, *old, views.mean, views.std, *row, views.transform)
        new, replay = positions.shape
        stored = buffer.stored(positions.replay[0]) if replay else {}
        if positions.rates is not None:
            set_rate(self.optimizer, positions.rates[0])
        batch = Batch(x, y, new, stored, None if positions.patches is None else positions.patches[0])
        self.optimizer.zero_grad()
        with self.learner.precision():
            if self.method.reads_features:
                logits, features = self.learner.with_features(self.learner.model, x)
                batch = replace(batch, features=features)
            else:
                logits = self.learner.forward(self.learner.model, x)
            loss = self.method.loss(batch, logits)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            what = f"a tensor of {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            raise SpecError(f"the loss of {self.learner.spec.method} is {what}: it must be one number, as a tensor")
        penalty = self.method.penalty()
        if penalty is not None:
            loss = loss + penalty
        loss.backward()
        if processes.here().several:
            processes.here().average([p for group in self.optimizer.param_groups for p in group["params"]])
        self.optimizer.step()
        self.method.after_step()
        return loss.detach()

    def _drawing(self) -> AbstractContextManager[None]:
        """A user's transform draws from torch's global generators: the one named augmentation is lent to it."""
        if self.learner.views.transform is None:
            return contextlib.nullcontext()
        return self.learner.generators.borrowed("augmentation")


def _has_compiler() -> bool:
    return importlib.util.find_spec("triton") is not None


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # A grid of runs has more shapes of batch, with and without replay and augmentation, than the 8 programs after which
    # torch would give up and go on uncompiled.
    torch._dynamo.config.recompile_limit = max(MOST_PROGRAMS, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=False)


class PlainSteps:
    """Step by step."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.generators = step.learner.generators

    def begin_task(self, data: Examples) -> None:
        self.data = data

    def take(self, batches: Batches, losses: Tensor) -> Iterator[None]:
        """Take a step for each of the batches, which are of one shape; its loss goes to its place in `losses`."""
        taken = 0
        for data, rows in staged(self.data, batches):
            for i in range(len(rows)):
                with self.generators.dropout():
                    losses[taken] = self.step(data, rows.each(lambda t, i=i: t[i : i + 1]))  # type: ignore[misc]
                taken += 1
                yield


@dataclass
class Program:
    """A captured step for one shape of batch: it reads the row its counter points to and moves the counter on."""

    rows: Batches
    losses: Tensor
    counter: Tensor
    often: bool
    replay: Callable[[], None] | None = None
    warm: int = field(default=0)


class CapturedSteps:
    """The whole step, from the gathering of the batch to the optimizer, is recorded once for each shape of batch and
    then replayed: a replay costs one launch instead of some hundred, and needs nothing from the host.

    A recording holds addresses, so everything it touches stays where it is: the task's examples, the buffer, the plan
    and the methods' tensors are written in place.
    """

    def __init__(
        self,
        step: Step,
        examples: int,
        shape: tuple[int, ...],
        capture: "Capture",
        compiled: bool = False,
        *,
        dtype: torch.dtype = torch.uint8,
    ) -> None:
        device = step.learner.buffer.y.device
        self.step = step
        self.generators = step.learner.generators
        self.capture = capture
        self.data = Examples(
            torch.zeros((examples, *shape), dtype=dtype, device=device),
            torch.zeros(examples, dtype=torch.int64, device=device),
        )
        if compiled:
            step.compile(self.data)
        self.programs: dict[tuple[int, int], Program] = {}
        self.signature: object = None
        self.capturable = True

    def begin_task(self, data: Examples) -> None:
        self.source = data
        if not data.apart:
            self.data.x[: len(data)].copy_(data.x)
            self.data.y[: len(data)].copy_(data.y)

    def take(self, batches: Batches, losses: Tensor) -> Iterator[None]:
        often = len(batches) > 1
        if not self.source.apart:
            yield from self._take(batches, losses, often)
            return
        taken = 0
        for block, rows in staged(self.source, batches):
            # What is recorded reads from here; the copy is made on the device, behind the steps before.
            self.data.x[: len(block)].copy_(block.x)
            self.data.y[: len(block)].copy_(block.y)
            yield from self._take(rows, losses[taken : taken + len(rows)], often)
            taken += len(rows)

    def _take(self, batches: Batches, losses: Tensor, often: bool) -> Iterator[None]:
        if self.signature != (signature := self._signature()):
            self.programs.clear()  # what was recorded no longer holds
            self.signature = signature
        program = self.programs.get(batches.shape)
        if program is None or len(program.rows) < len(batches):
            program = self.programs[batches.shape] = self._program(batches, often)
        for place, given in zip(program.rows.tensors(), batches.tensors(), strict=True):
            if place is not None and given is not None:
                place[: len(given)].copy_(given)
        program.counter.zero_()
        for _ in range(len(batches)):
            if program.replay is None and program.warm >= WARM_UP and self.capturable:
                program.replay = self._record(program)
            if program.replay is None:
                with self.generators.dropout():
                    self._one(program)
                program.warm += 1
            else:
                program.replay()
            yield
        losses.copy_(program.losses[: len(batches)])

    def _program(self, batches: Batches, often: bool) -> Program:
        device = batches.new.device
        losses, counter = torch.zeros(len(batches), device=device), torch.zeros(1, dtype=torch.int64, device=device)
        return Program(batches.each(torch.zeros_like), losses, counter, often)

    def _record(self, program: Program) -> Callable[[], None] | None:
        before, attributes = self._signature(), dict(vars(self.step.method))
        with self.generators.dropout():  # a recording keeps the generator it begins with
            replay = self.capture(lambda: self._one(program))
        # A step that counts in Python, say, would count once and never again: such a method goes step by step.
        self.capturable = self._signature() == before
        if not self.capturable:
            vars(self.step.method).update(attributes)
        return replay if self.capturable else None

    def _signature(self) -> object:
        """All that a recorded step could depend on but the contents of tensors: of the method, and what is frozen."""
        method, model = self.step.method, self.step.learner.model
        state = method.state_dict().items()
        own = _without_contents({name: value for name, value in state if name not in method.outside_step})
        return own, [module.training for module in model.modules()], [p.requires_grad for p in model.parameters()]

    def _one(self, program: Program) -> None:
        row = program.rows.each(lambda t: t.index_select(0, program.counter))
        loss = self.step(self.data, row, often=program.often)
        program.losses.index_copy_(0, program.counter, loss.reshape(1))
        program.counter.add_(1)


def _without_contents(value: Any) -> object:
    if isinstance(value, Tensor):
        return value.data_ptr(), value.shape, value.dtype
    if isinstance(value, dict):
        return tuple((name, _without_contents(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_without_contents(part) for part in value)
    return value


Capture = Callable[[Callable[[], None]], Callable[[], None]]


class CudaCapture:
    """Records with CUDA graphs. The graphs of a run share their memory: they never run at the same time."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, record: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self.pool, torch.cuda.current_stream(), capture_error_mode="thread_local"):
            record()
        return graph.replay
