"""Examples that a step cannot read where they lie, in a file or in host memory, brought to it block by block."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from tfcsr.data.tasks import Examples
from tfcsr.training.batches import Batches

# Of a block: enough to make the copy worth its while, little beside a model.
BLOCK_BYTES = 32 << 20


def rows_in_block(example: Tensor) -> int:
    """How many examples like this one make a block."""
    return max(1, BLOCK_BYTES // max(1, example.nbytes))


def staged(data: Examples, batches: Batches) -> Iterator[tuple[Examples, Batches]]:
    """The batches a few at a time, each with the examples it is made of and its positions among them. Where the step
    can read the examples as they lie, that is all at once.

    While the steps of one block are taken, a thread gathers the next.
    """
    if not data.apart:
        yield data, batches
        return
    count = min(max(1, len(batches)), max(1, rows_in_block(data.x[0]) // max(1, batches.new.shape[1])))
    parts = [batches.each(lambda t, i=i: t[i : i + count]) for i in range(0, len(batches), count)]  # type: ignore[misc]
    on_gpu = data.y.device.type == "cuda"
    room = [_room(data.x, count * batches.new.shape[1], on_gpu) for _ in range(2)]
    copied: list[torch.cuda.Event | None] = [None, None]

    def gather(number: int) -> Tensor:
        rows = parts[number].new.flatten().cpu()
        if (event := copied[number % 2]) is not None:
            event.synchronize()  # the block before the last is still on its way from here
        found = room[number % 2][: len(rows)]
        if data.mapped is not None:
            data.mapped.gather(rows, found)
        else:
            torch.index_select(data.x, 0, rows, out=found)
        return found

    with ThreadPoolExecutor(1) as pool:
        coming: Future[Tensor] | None = pool.submit(gather, 0) if parts else None
        for number, part in enumerate(parts):
            assert coming is not None
            x = coming.result()
            if on_gpu:
                x = x.to(data.y.device, non_blocking=True)
                event = copied[number % 2] = torch.cuda.Event()
                event.record()
            # The room that the next block goes to is free: the steps on the block before it have been taken.
            coming = pool.submit(gather, number + 1) if number + 1 < len(parts) else None
            positions = torch.arange(len(x), device=part.new.device).reshape(part.new.shape)
            yield Examples(x, data.y[part.new.flatten()]), replace(part, new=positions)


def _room(x: Tensor, rows: int, pinned: bool) -> Tensor:
    return torch.empty((rows, *x.shape[1:]), dtype=x.dtype, pin_memory=pinned)
