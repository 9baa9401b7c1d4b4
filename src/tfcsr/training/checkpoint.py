"""A run's state on disk, between two epochs: `N.safetensors` for the tensors, `N.json` for all else and the checksums.

Of a buffer that lies on disk, a `.version` file says where its examples are; while nothing of it changes, one serves
all checkpoints.

N counts the epochs trained so far. A checkpoint is one once its `N.json` is there, which is written last; only then is
the last but one removed. So a kill at any moment leaves one to go on from, and damage to the newest another.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from tfcsr import processes
from tfcsr.buffer import disk
from tfcsr.errors import OutputError
from tfcsr.files import sync_folder, write_bytes, writing

VERSION = 2
# The same, with a buffer on disk.
ON_DISK = 3
# Version 0.1.0 knew a run by another key; the folder it lies in says which run it is.
WITHOUT_KEY = 1

# What comes out of safetensors, torch and the walk through a state when a file holds nonsense.
NONSENSE = (
    safetensors.SafetensorError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,  # and RecursionError with it
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Checkpoint:
    number: int
    state: dict[str, Any]
    events: int
    """How many bytes of the events had been written."""
    damaged: str = ""
    """What is wrong with the newer one that this stands in for."""


class Checkpoints:
    """The last two of one run, which is known by its spec's key, or the last `kept`. What was on a GPU comes back on
    `device`. Of several processes the first writes and reads, and tells the others.
    """

    def __init__(self, folder: Path, key: str, device: str = "cpu", *, kept: int = 2) -> None:
        self.folder = folder
        self.kept = kept
        self.key = key
        self.device = device
        self.last: int | None = None
        self._versions: dict[int, set[Path]] = {}  # that a checkpoint speaks of
        self._written: WeakKeyDictionary[disk.Version, dict[str, Any]] = WeakKeyDictionary()

    def manifest(self, number: int) -> Path:
        return self.folder / f"{number}.json"

    def tensors(self, number: int) -> Path:
        return self.folder / f"{number}.safetensors"

    def save(self, number: int, state: dict[str, Any], events: int) -> None:
        if not processes.here().leads:
            self.last = number
            return
        tensors: dict[str, Tensor] = {}
        versions: dict[str, disk.Version] = {}
        rest = take_apart(state, "", tensors, versions)
        packed = pack(tensors)
        buffers = {name: self._keep(version) for name, version in versions.items()}
        self._versions[number] = {self.folder / entry["name"] for entry in buffers.values()}
        content = {
            "spec": self.key,
            "number": number,
            "events": events,
            "tensors": {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()},
            "state": rest,
        } | ({"buffers": buffers} if buffers else {})
        whole = {"version": ON_DISK if buffers else VERSION, "sha256": _digest(content), "content": content}
        self.write(number, packed, json.dumps(whole).encode())

    def _keep(self, version: disk.Version) -> dict[str, Any]:
        """Have a buffer's version lie here, and its examples beside this folder: what the manifest says of it."""
        rows = version.file.bring_to(self.folder.parent / disk.FOLDER)
        known = self._written.get(version)
        if known is None or known["rows"] != rows or not (self.folder / known["name"]).exists():
            packed = pack(dict(version.tensors), {"rows": rows})
            sha256 = hashlib.sha256(packed).hexdigest()
            known = {"name": f"{sha256[:16]}{disk.VERSION}", "bytes": len(packed), "sha256": sha256, "rows": rows}
            with writing(self.folder):
                self.folder.mkdir(exist_ok=True)
            write_bytes(self.folder / known["name"], packed)
            self._written[version] = known | version.about()
        return self._written[version]

    def write(self, number: int, tensors: bytes, manifest: bytes) -> None:
        """Keep a checkpoint that is packed already: just now, or on the machine that has the run in hand."""
        with writing(self.folder):
            self.folder.mkdir(exist_ok=True)
        write_bytes(self.tensors(number), tensors)
        write_bytes(self.manifest(number), manifest)
        # Once for both names: a manifest without its tensors is passed over, and the last one is still there.
        sync_folder(self.folder)
        self._remove_all_but({number, self.last} if self.kept > 1 else {number})
        disk.remove_unused(self.folder.parent)
        self.last = number

    def load(self) -> Checkpoint | None:
        """The newest sound one; an error where there are some and none is sound."""
        here = processes.here()
        if here.leads:
            found = self._newest_sound()
            if here.several:
                here.message(b"" if found is None else _as_bytes(found))
            return found
        said = here.message()
        if not said:
            return None
        found = _from_bytes(said, self.device)
        self.last = found.number
        return found

    def _newest_sound(self) -> Checkpoint | None:
        problems: list[str] = []
        for number in sorted(self._numbers(), reverse=True):
            try:
                found = self._read(number)
            except torch.OutOfMemoryError:  # no fault of the file's
                raise
            except NONSENSE as error:
                problems.append(f"{self.manifest(number)}: {error}")
            except OSError as error:
                problems.append(f"{self.manifest(number)}: {error.strerror}")
            else:
                self.last = number
                return Checkpoint(number, found["state"], found["events"], problems[0] if problems else "")
        if problems:
            raise OutputError(f"no sound checkpoint ({problems[0]}): remove {self.folder} to start this run over")
        return None

    def clear(self) -> None:
        if processes.here().leads:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, number: int) -> dict[str, Any]:
        whole = json.loads(self.manifest(number).read_bytes())
        if whole["version"] not in (VERSION, ON_DISK, WITHOUT_KEY):
            raise OutputError(
                f"{self.manifest(number)} has format {whole['version']!r}, this version of tfcsr reads {VERSION} and"
                f" {ON_DISK}: go on with the version that wrote it, or remove {self.folder} to start this run over"
            )
        content = whole["content"]
        if whole["sha256"] != _digest(content):
            raise ValueError("its checksum is wrong")
        if whole["version"] != WITHOUT_KEY and content["spec"] != self.key:
            raise OutputError(f"{self.manifest(number)} is of another run: remove {self.folder} to start this run over")
        packed, expected = self.tensors(number).read_bytes(), content["tensors"]
        if len(packed) != expected["bytes"] or hashlib.sha256(packed).hexdigest() != expected["sha256"]:
            raise ValueError("the checksum of its tensors is wrong")
        if content["number"] != number or type(content["events"]) is not int or content["events"] < 0:
            raise ValueError("it has an impossible number")
        versions = {name: self._read_version(about) for name, about in content.get("buffers", {}).items()}
        state = put_together(content["state"], safetensors.torch.load(packed), self.device, versions)
        self._versions[number] = {self.folder / about["name"] for about in content.get("buffers", {}).values()}
        return {"state": state, "events": content["events"]}

    def _read_version(self, about: dict[str, Any]) -> disk.Version:
        for name in (about["name"], about["rows"]):
            if Path(name).name != name:
                raise ValueError("a file of it lies elsewhere")
        packed = (self.folder / about["name"]).read_bytes()
        if len(packed) != about["bytes"] or hashlib.sha256(packed).hexdigest() != about["sha256"]:
            raise ValueError("the checksum of its buffer is wrong")
        path = self.folder.parent / disk.FOLDER / about["rows"]
        found = disk.Version.read(about, path, safetensors.torch.load(packed))
        self._written[found] = about
        return found

    def newest(self) -> int:
        """The number of the newest, sound or not; 0 where there is none."""
        return max(self._numbers(), default=0)

    def _numbers(self) -> Iterable[int]:
        return [int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdecimal()]

    def _remove_all_but(self, numbers: set[int | None]) -> None:
        wanted = [n for n in numbers if n is not None]
        kept = {path for n in wanted for path in (self.manifest(n), self.tensors(n), *self._versions.get(n, ()))}
        with writing(self.folder):
            for path in set(self.folder.iterdir()) - kept:
                path.unlink(missing_ok=True)


def _as_bytes(found: Checkpoint) -> bytes:
    """For another process: as it lies on disk, in one piece."""
    tensors: dict[str, Tensor] = {}
    rest = take_apart(found.state, "", tensors)
    head = json.dumps([found.number, rest, found.events, found.damaged]).encode()
    return len(head).to_bytes(8) + head + pack(tensors)


def _from_bytes(said: bytes, device: str) -> Checkpoint:
    start = 8 + int.from_bytes(said[:8])
    number, rest, events, damaged = json.loads(said[8:start])
    return Checkpoint(number, put_together(rest, safetensors.torch.load(said[start:]), device), events, damaged)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def take_apart(
    value: Any, path: str, tensors: dict[str, Tensor], versions: dict[str, disk.Version] | None = None
) -> Any:
    """The value as JSON, in which an object stands for a tensor, a dict (whose keys may be numbers), a tuple, or a
    version of a buffer on disk.
    """
    if isinstance(value, disk.Version) and versions is not None:
        versions[path] = value
        return {"version": path}
    if isinstance(value, Tensor):
        while path in tensors:
            path += "'"
        entry: dict[str, Any] = {"tensor": path}
        if value.device.type != "cpu":
            entry["on_device"] = True
        value = tensors[path] = value.detach().cpu()
        # The order in memory decides the order of a sum, and so its last bits: it has to come back as it was.
        if value.stride() == torch.empty(value.shape, device="meta").stride() or not _is_dense(value):
            return entry
        tensors[path] = value.as_strided((value.numel(),), (1,))
        return entry | {"shape": list(value.shape), "stride": list(value.stride())}
    if isinstance(value, dict):
        start = f"{path}/" if path else ""
        return {"dict": [[key, take_apart(entry, f"{start}{key}", tensors, versions)] for key, entry in value.items()]}
    if isinstance(value, list | tuple):
        entries = [take_apart(entry, f"{path}/{i}", tensors, versions) for i, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"tuple": entries}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise OutputError(
        f"a checkpoint cannot hold {path}, a {type(value).__name__}: a method's state_dict may have tensors, numbers,"
        f" text, lists, tuples and dicts"
    )


def put_together(
    value: Any, tensors: dict[str, Tensor], device: str, versions: dict[str, disk.Version] | None = None
) -> Any:
    if isinstance(value, list):
        return [put_together(entry, tensors, device, versions) for entry in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        tensor = tensors[value["tensor"]]
        if "shape" in value:
            if math.prod(value["shape"]) != tensor.numel():
                raise ValueError(f"{value['tensor']} is of another size than its shape")
            tensor = tensor.as_strided(value["shape"], value["stride"])
            if not _is_dense(tensor):  # it would claim one number for many
                raise ValueError(f"{value['tensor']} does not lie in memory as it was")
        return tensor.to(device) if "on_device" in value else tensor
    if "tuple" in value:
        return tuple(put_together(entry, tensors, device, versions) for entry in value["tuple"])
    if "version" in value:
        return (versions or {})[value["version"]]
    return {key: put_together(entry, tensors, device, versions) for key, entry in value["dict"]}


def _is_dense(tensor: Tensor) -> bool:
    """Whether its elements lie in memory side by side, in whatever order."""
    expected = 1
    for step, size in sorted(
        (step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    ):
        if step != expected:
            return False
        expected *= size
    return True


def pack(tensors: dict[str, Tensor], about: dict[str, str] | None = None) -> bytes:
    seen: set[int] = set()
    for name, tensor in tensors.items():
        # safetensors refuses tensors that share memory. Tied weights are sound all the same, and are stored twice.
        memory = tensor.untyped_storage().data_ptr()
        tensors[name] = tensor.contiguous().clone() if memory in seen else tensor.contiguous()
        seen.add(memory)
    return safetensors.torch.save(tensors, about)
