"""A trained network as one file that runs without this package: `.pt2` for torch alone, `.onnx` for any ONNX runtime.

The file takes stored input as it is, any number of examples at once, and gives a score per class. The classes' labels
go with it, as a JSON list:

    extra = {"labels.json": ""}
    network = torch.export.load("network.pt2", extra_files=extra).module()
    labels = json.loads(extra["labels.json"])

    session = onnxruntime.InferenceSession("network.onnx")
    (scores,) = session.run(["scores"], {"input": images})
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
"""

import contextlib
import io
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from tfcsr.errors import SpecError
from tfcsr.files import PART, sync_folder, write_bytes, writing
from tfcsr.models.head import copied
from tfcsr.models.predict import logits

SUFFIXES = (".pt2", ".onnx")
LABELS = "labels"
LARGEST = 2_000_000_000  # bytes of weights; an ONNX file cannot be longer than 2 GiB


class Normalised(nn.Module):
    """A network that is given stored values and normalises them itself; without a mean it gets them as they are."""

    mean: Tensor | None
    std: Tensor | None

    def __init__(self, network: nn.Module, mean: Tensor | None = None, std: Tensor | None = None) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        if self.mean is not None and self.std is not None:
            x = (x.float() - self.mean) / self.std
        scores: Tensor = self.network(x)
        return scores


def require_format(path: Path) -> None:
    """Refuses a file that could not be written in the end, before anything is done for it."""
    if path.suffix not in SUFFIXES:
        raise SpecError(f"{path} is in no known format: name it *{' or *'.join(SUFFIXES)}")
    if path.suffix == ".onnx":
        try:
            with _quiet():
                import onnx  # noqa: F401
                import onnxscript  # noqa: F401
        except ImportError:
            raise SpecError(f"{path} needs onnx and onnxscript: pip install 'tfcsr[onnx]', or use .pt2") from None


def export(network: nn.Module, example: Tensor, labels: Sequence[str], path: Path) -> None:
    """Writes the network, in eval mode, for a CPU. What is there stays there until the new file is whole.

    The network itself is left as it is. `example` is some stored input, one or more: the exported network must give
    the same scores for it. It is not part of the file.
    """
    require_format(path)
    if example.ndim == 0 or len(example) == 0:
        raise SpecError("a network is exported with an example of its input: there is none")
    example = example.detach().cpu()
    with _quiet(), torch.no_grad():
        ours = _on_cpu(network)
        # Two of them: of a batch of one, torch believes that it is always one.
        expected = {size: _scores(ours, _batch(example, size)) for size in (2, 1, 3)}
        if (classes := expected[2].shape[1]) != len(labels):
            raise SpecError(f"the network gives {classes} scores: {len(labels)} labels do not go with it")
        # Traced with zeros, because torch keeps what it traced with in the file, and an example may be private.
        program = _traced(ours, torch.zeros_like(_batch(example, 2)))
        _require_same(program, example, expected)
        text = json.dumps([str(label) for label in labels])
        if path.suffix == ".pt2":
            data = io.BytesIO()
            with _refusals():
                torch.export.save(program, data, extra_files={f"{LABELS}.json": text})
            write_bytes(path, data.getvalue())
        else:
            _write_onnx(program, text, path)
    sync_folder(path.parent)


def _on_cpu(network: nn.Module) -> nn.Module:
    ours = copied(network).eval().requires_grad_(False).cpu()
    return ours.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload, no-any-return]


def _batch(example: Tensor, size: int) -> Tensor:
    return example[torch.arange(size) % len(example)].contiguous()


def _scores(network: nn.Module, x: Tensor) -> Tensor:
    try:
        output = network(x)
    except Exception as error:
        raise SpecError(f"the network fails on an input of {tuple(x.shape)}: {_reason(error)}") from None
    return logits(output, len(x))


def _traced(network: nn.Module, x: Tensor) -> torch.export.ExportedProgram:
    with _refusals():
        program = torch.export.export(network, (x,), dynamic_shapes=_any_batch())
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                node.meta.pop("stack_trace", None)  # the paths of the machine it was made on are nobody's business
    return program


def _any_batch() -> tuple[dict[int, torch.export.Dim]]:
    return ({0: torch.export.Dim("batch")},)


def _require_same(program: torch.export.ExportedProgram, example: Tensor, expected: dict[int, Tensor]) -> None:
    """Tracing can go wrong without a word, say where a branch was taken that holds for this batch size only."""
    with _refusals():
        traced = program.module()
        found = {size: traced(_batch(example, size)) for size in expected}
    for size, scores in expected.items():
        room = 1e-4 * max(1.0, float(scores.abs().max()))  # a sum in another order is no other score
        if found[size].shape != scores.shape or not torch.allclose(found[size], scores, 1e-3, room, equal_nan=True):
            raise SpecError(
                f"the network cannot be exported: the traced one gives other scores for a batch of {size}; its forward"
                " must take the same steps for every input and give the same scores every time"
            )


def _write_onnx(program: torch.export.ExportedProgram, labels: str, path: Path) -> None:
    with _refusals():
        made = torch.onnx.export(
            program,
            dynamo=True,
            input_names=["input"],
            output_names=["scores"],
            dynamic_shapes=_any_batch(),
            verbose=False,
        )
        assert made is not None
        made.model.metadata_props[LABELS] = labels
    if sum(tensor.nbytes for tensor in program.state_dict.values()) <= LARGEST:
        with _refusals():
            data = made.model_proto.SerializeToString()
        write_bytes(path, data)
        return
    with writing(path), tempfile.TemporaryDirectory(PART, f".{path.name}.", path.parent) as folder:
        beside = Path(folder) / path.name
        made.save(beside, external_data=True)
        # The weights first: a file without them would be of no use.
        for file in sorted(Path(folder).iterdir(), key=lambda file: file == beside):
            with file.open("rb+") as written:
                os.fsync(written.fileno())
            file.replace(path.parent / file.name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch tells at length what it does while it exports: none of it is for a user."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    nowhere = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Whatever torch has against the network, in one line."""
    try:
        yield
    except Exception as error:
        raise SpecError(
            f"the network cannot be exported: {_reason(error)}; its forward must take the same steps for every input"
            " and every batch size"
        ) from None


def _reason(error: BaseException) -> str:
    """The first line of what it began with: the rest is advice to those who write exporters."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    for aside in (" (unhinted", " For more information"):
        line = line.partition(aside)[0]
    return line.rstrip(" .")[:300]
