"""The processes that train one learner together, each with its share of every batch: which of them this one is, and
what it exchanges with the others. `torchrun` starts them; none of it needs torch before they meet.
"""

import atexit
import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tfcsr.errors import ProcessError
from tfcsr.late import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

# Batch normalisation cannot work on a single example: a batch of fewer for each process is taken whole by all of them.
FEWEST_ROWS = 2
# One that loses its connection says so at once; this is for a network that falls silent.
LONGEST_WAIT = timedelta(hours=12)
# What all of them would say, process 0 says; torchrun then ends the others, within this time.
SECONDS_TO_TELL = 10.0


class Processes:
    """This process, alone or beside others. What is said here of all processes is called by all of them at the same
    moment: nobody goes on before the others are there.
    """

    def __init__(self, number: int = 0, count: int = 1, *, local: int = 0, beside: int = 1) -> None:
        self.number, self.count = number, count
        self.local, self.beside = local, beside  # its number among those on this machine, and how many these are
        # While it asks a network about its own share of a batch: how many examples that are, and the batch.
        self.apart: tuple[int, int] | None = None
        self.wish = 0  # the signal by which somebody asked this process to stop
        self.wished = 0  # the same of any process, as far as all of them know

    @property
    def several(self) -> bool:
        return self.count > 1

    @property
    def leads(self) -> bool:
        """Process 0 writes and prints."""
        return self.number == 0

    # What goes from process to process; one alone has nobody to ask.

    def _gather(self, own: "Tensor") -> "Tensor":
        """The same tensor of every process, [processes, ...]."""
        return own[None]

    def _sum(self, tensor: "Tensor") -> None:
        """In place, to the same bits everywhere."""

    def _broadcast(self, tensor: "Tensor") -> None:
        """In place, from process 0."""

    # Shares

    def rows(self, count: int) -> slice:
        """This process's share of so many examples: every so-and-so-many-th, so that it has its part of the new and of
        the replayed ones. Of few examples everybody has all.
        """
        if count < FEWEST_ROWS * self.count:
            return slice(None)
        return slice(self.number, None, self.count)

    def is_shared(self, count: int) -> bool:
        return self.several and self.rows(count) != slice(None)

    def whole(self, own: "Tensor", count: int) -> "Tensor":
        """What all processes have for their rows of so many examples, in the order of the examples."""
        size = -(-count // self.count)
        if len(own) < size:  # what is exchanged must be of one size
            own = torch.cat([own, own.new_zeros((size - len(own), *own.shape[1:]))])
        found = self._gather(own.contiguous())
        return found.transpose(0, 1).reshape(-1, *own.shape[1:])[:count]

    def asked(self, ask: "Callable[[Tensor], Tensor]", x: "Tensor") -> "Tensor":
        """The answer to each example of x. Each process asks for its share, so all have the same bits."""
        if not self.is_shared(len(x)):
            return ask(x)
        return self.whole(ask(x[self.rows(len(x))]), len(x))

    @contextmanager
    def sharing(self, count: int) -> Iterator[slice]:
        """Inside, a network is asked about this process's rows of so many examples alone."""
        rows = self.rows(count)
        self.apart = len(range(count)[rows]), count
        try:
            yield rows
        finally:
            self.apart = None

    def total(self, tensor: "Tensor") -> "Tensor":
        """The sum over all processes."""
        found = tensor.clone(memory_format=torch.contiguous_format)
        self._sum(found)
        return found

    def average(self, parameters: "Sequence[nn.Parameter]") -> None:
        """Give every process the mean of all processes' gradients. Where only some of them have a gradient, the others'
        counts as 0; where none has, there is none. On the way they tell each other whether to stop.
        """
        wish = self.wish
        said = torch.tensor([*(float(p.grad is not None) for p in parameters), float(wish > 0), float(wish)])
        groups: dict[Any, list[int]] = {}
        for i, p in enumerate(parameters):
            groups.setdefault((p.device, p.dtype), []).append(i)
        # On a CPU it all goes in one message. What is said goes beside what lies on a GPU: nobody waits for the device.
        with_it = (said.device, said.dtype)
        if with_it not in groups:
            self._sum(said)
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for place, members in groups.items():
                parts = [_flat(parameters[i]) for i in members] + ([said] if place == with_it else [])
                sent = torch.cat(parts)
                self._sum(sent)
                heard = list(sent.split([len(part) for part in parts]))
                if place == with_it:
                    said = heard.pop()
                torch._foreach_div_(heard, self.count)
                found |= {i: part.view(parameters[i].shape) for i, part in zip(members, heard, strict=True)}
            *having, wishes, total = said.tolist()
            for i, (p, had) in enumerate(zip(parameters, having, strict=True)):
                if p.grad is not None:
                    p.grad.copy_(found[i])
                elif had:
                    p.grad = found[i].clone()
        if wishes and not self.wished:
            self.wished = wish or round(total / wishes)

    # Words

    def told(self, value: int) -> int:
        """What process 0 has decided."""
        word = torch.tensor([value])
        self._broadcast(word)
        return int(word)

    def message(self, data: bytes = b"") -> bytes:
        """The bytes that process 0 gives."""
        if not self.several:
            return data
        size = self.told(len(data))
        sent = torch.frombuffer(bytearray(data), dtype=torch.uint8) if self.leads and size else None
        if sent is None:
            sent = torch.empty(size, dtype=torch.uint8)
        self._broadcast(sent)
        found: bytes = sent.numpy().tobytes()
        return found

    def barrier(self) -> None:
        self._sum(torch.zeros(1))

    def same(self, digest: bytes) -> bool:
        """Whether all processes have the same."""
        found = self._gather(torch.frombuffer(bytearray(digest), dtype=torch.uint8))
        return bool((found == found[0]).all())

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """First one process of each machine, then the others: what it has made on disk is there for them."""
        if self.several and self.local > 0:
            self.barrier()
        yield
        if self.several and self.local == 0:
            self.barrier()

    def command(self) -> str:
        """How a command begins that starts as many again."""
        return f"torchrun --nproc-per-node {self.count} -m tfcsr" if self.several else "tfcsr"


def _flat(parameter: "nn.Parameter") -> "Tensor":
    """Its gradient as one row."""
    if parameter.grad is None:
        return torch.zeros(parameter.numel(), dtype=parameter.dtype, device=parameter.device)
    return parameter.grad.reshape(-1)


class Joined(Processes):
    """Processes that have met through torch.distributed: gloo for what lies in host memory, NCCL for GPUs."""

    store: Any

    def meet(self) -> None:
        distributed, cuda = torch.distributed, torch.cuda
        on_gpu = cuda.is_available() and self.local < cuda.device_count()
        if on_gpu:
            cuda.set_device(self.local)
        try:
            self.store, _, _ = next(distributed.rendezvous("env://", timeout=LONGEST_WAIT))  # type: ignore[attr-defined]
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                store=self.store,
                rank=self.number,
                world_size=self.count,
                timeout=LONGEST_WAIT,
            )
        except (RuntimeError, ValueError) as error:
            raise ProcessError(
                f"process {self.number} cannot reach the others ({str(error).partition(chr(10))[0]}): start all of them"
                " with torchrun"
            ) from None

    def _gather(self, own: "Tensor") -> "Tensor":
        found = own.new_empty((self.count, *own.shape))
        with self._reaching():
            torch.distributed.all_gather(list(found.unbind()), own)
        return found

    def _sum(self, tensor: "Tensor") -> None:
        with self._reaching():
            torch.distributed.all_reduce(tensor)

    def _broadcast(self, tensor: "Tensor") -> None:
        with self._reaching():
            torch.distributed.broadcast(tensor, 0)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            # gloo has no class of its own for a lost connection, only the place in its source.
            if not isinstance(error, torch.distributed.DistError) and "gloo/transport" not in str(error):
                raise
            raise ProcessError(
                f"another of the {self.count} processes has ended, so this one cannot go on: what is saved is kept;"
                " start all of them again"
            ) from None

    def tells(self) -> bool:
        """The first to ask."""
        try:
            first = self.store.compare_set("tfcsr/told", "", str(self.number)) == str(self.number).encode()
        except RuntimeError:  # process 0 held the store, and has gone with it
            first = self.leads
        return bool(first)


ALONE = Processes()
_here: Processes = ALONE
_met: Joined | None = None


def here() -> Processes:
    """This process: alone, unless it has joined others."""
    return _here


def started() -> Processes:
    """This process as whoever started it says, torchrun above all; it has met nobody yet."""
    names = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 0}
    try:
        number, count, local, beside = (int(os.environ.get(name, other)) for name, other in names.items())
    except ValueError:
        number, count, local, beside = 0, 0, 0, 0
    if not 0 <= number < count:
        said = ", ".join(f"{name} {os.environ[name]!r}" for name in names if name in os.environ)
        raise ProcessError(f"the environment says {said}, which cannot be: start several processes with torchrun")
    return Joined(number, count, local=local, beside=beside or count)


@contextmanager
def joined() -> Iterator[Processes]:
    """Learn together with the processes that torchrun started beside this one. Inside, every process makes the same
    calls; process 0 alone writes. One that was started alone stays alone.

        with tfcsr.processes.joined():
            tfcsr.run(spec)
    """
    global _here, _met
    place = started()
    if not place.several or _here.several:
        yield _here
        return
    assert isinstance(place, Joined)
    if _met is None:
        place.meet()
        _met = place
        atexit.register(torch.distributed.destroy_process_group)
    _here = _met
    try:
        yield _here
        _here.barrier()  # nobody leaves while another still writes
    except BaseException:
        atexit.unregister(torch.distributed.destroy_process_group)  # which may wait for one that has gone
        raise
    finally:
        _here = ALONE


@contextmanager
def leaving() -> Iterator[None]:
    """Around all that a program of several processes does: it ends at once, with its exit code, whatever threads of
    torch.distributed are still at work. Taken down with the interpreter, such a thread can abort the process.
    """
    code = 1
    try:
        yield
        code = 0
    except SystemExit as ended:
        if _met is None:
            raise
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        if _met is None:
            raise
        traceback.print_exc()
    if _met is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def tells() -> bool:
    """Whether it is this process that says what went wrong. The first that asks does; before they have met, process 0,
    and another only where process 0 has nothing to say.
    """
    try:
        place = started() if _met is None else _met
    except ProcessError:
        return True
    if not place.several:
        return True
    if _met is None:
        if not place.leads:
            time.sleep(SECONDS_TO_TELL)
        return True
    first = _met.tells()
    if not first:  # torchrun ends all once one has ended: let the one that tells be heard
        time.sleep(SECONDS_TO_TELL / 10)
    return first
