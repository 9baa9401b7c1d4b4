"""Feeds damaged files to every reader: only a TfcsrError of one line may come out, and memory must stay bounded:

    python -m tests.nightly.fuzz --inputs 100000

Checksums are put right after the damage, so that what lies behind them is reached too.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import random
import resource
import tarfile
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import make_spec, make_training
from tests.reporting.conftest import overview
from tfcsr.data import cifar100, mnist
from tfcsr.errors import TfcsrError
from tfcsr.experiments.folder import RunFolder, list_runs
from tfcsr.experiments.origin import Origins
from tfcsr.experiments.reading import Results
from tfcsr.experiments.record import Record, Records
from tfcsr.experiments.result import Result
from tfcsr.experiments.run import _restore, run
from tfcsr.files import read_json
from tfcsr.paper.dense import dense
from tfcsr.paper.published import ARMS
from tfcsr.paper.reproduction import open_study
from tfcsr.reporting.reproduction.page import page_text
from tfcsr.reporting.tables import run_summary, run_table
from tfcsr.reporting.view import document
from tfcsr.spec import ORIGIN, RunSpec, load_spec_file
from tfcsr.training import checkpoint
from tfcsr.training.checkpoint import Checkpoints

SPARE = 4 << 20  # what a reader may take besides the file: caches, messages, objects
JSON_PIECES = (
    b"null",
    b"[]",
    b"{}",
    b"-1",
    b"1e999",
    b"NaN",
    b'"\\u001b[31m"',
    b"9" * 5000,
    b"[" * 2000,
    b"true",
    b'"x"',
)
JSON_PIECES += (b"\xff", b"0.5", b"\\", b'"', b",", b":", b"18446744073709551616")
BINARY_PIECES = (b"\0" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x1f\x8b\x08")


def damage(data: bytes, rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    """A few bytes changed, cut, repeated or replaced by what readers like least."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        # Half of it near the start, where the headers are.
        at = rng.randrange(min(len(out), 64) + 1 if rng.random() < 0.5 else len(out) + 1)
        kind = rng.randrange(6)
        length = rng.choice((1, 1, 2, 4, 8, 40))
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            out[at : at + length] = rng.choice(pieces)
        elif kind == 2:
            out[at:at] = rng.choice(pieces)
        elif kind == 3:
            del out[at : at + length]
        elif kind == 4:
            del out[at:]
        else:
            out[at:at] = out[at : at + length]
    return bytes(out)


def nonsense(rng: random.Random) -> Any:
    """A JSON value that is not the one expected."""
    values = [None, True, -1, 0, 2**70, 0.5, 1e308, "", "x\x1b[2J", [], {}, [[]], [None], {"a": 1}, "$\\frac{", 10**9]
    return rng.choice([*values, float("nan"), float("inf")])


def mangled(value: Any, rng: random.Random) -> Any:
    """The same JSON with one value somewhere in it exchanged, removed or repeated."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return nonsense(rng)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    out: Any = dict(value) if isinstance(value, dict) else list(value)
    choice = rng.random()
    if choice < 0.1:
        del out[key]
    elif choice < 0.2 and isinstance(out, list):
        out.append(out[key])
    elif choice < 0.2:
        out["x\x1b"] = out[key]
    else:
        out[key] = mangled(out[key], rng)
    return out


def damaged_json(value: Any, rng: random.Random) -> bytes:
    raw = json.dumps(mangled(value, rng)).encode()
    return damage(raw, rng, JSON_PIECES) if rng.random() < 0.4 else raw


Feed = Callable[[random.Random], int]


def idx(folder: Path) -> Feed:
    path = folder / "labels-idx1-ubyte"
    images = b"\0\0\x08\x03" + b"".join(n.to_bytes(4) for n in (3, 4, 4)) + bytes(range(48))

    def feed(rng: random.Random) -> int:
        data = damage(images, rng, BINARY_PIECES)
        if rng.random() < 0.3:
            data = (
                gzip.compress(data, 1) if rng.random() < 0.5 else damage(gzip.compress(images, 1), rng, BINARY_PIECES)
            )
            target = path.with_suffix(".gz")
        else:
            target = path
        target.write_bytes(data)
        mnist.read_idx(target, (3, 4, 4))
        return len(data)

    return feed


def cifar_records() -> bytes:
    labels = np.arange(4, dtype=np.uint8)
    pixels = np.zeros((4, cifar100.RECORD - 2), np.uint8)
    return np.concatenate([labels[:, None] % 2, labels[:, None], pixels], axis=1).tobytes()


def cifar(folder: Path) -> Feed:
    sound = cifar_records()

    def feed(rng: random.Random) -> int:
        data = bytearray(sound)
        if rng.random() < 0.5:  # the right length and wrong labels, or any damage
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(4) * cifar100.RECORD + rng.randrange(2)] = rng.randrange(256)
        else:
            data = bytearray(damage(bytes(data), rng, BINARY_PIECES))
        cifar100.read_records(folder / "train.bin", bytes(data), 1)
        return len(data)

    return feed


def archive(folder: Path) -> Feed:
    path = folder / cifar100.ARCHIVE
    names = b"a b c d\n"
    content = {"train.bin": cifar_records(), "test.bin": cifar_records(), cifar100.CLASS_NAMES: names}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(f"{cifar100.FOLDER}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    sound = out.getvalue()

    def feed(rng: random.Random) -> int:
        if rng.random() < 0.3:
            data = damage(gzip.compress(sound, 1), rng, BINARY_PIECES)
        else:  # a header with a right checksum and nonsense in it, which is where tarfile is weakest
            tar = bytearray(sound)
            at = rng.choice([i for i in range(0, len(tar), 512) if tar[i : i + 5] == b"cifar"])
            header = bytearray(damage(bytes(tar[at : at + 512]), rng, BINARY_PIECES).ljust(512, b"\0")[:512])
            header[156:157] = rng.choice((header[156:157], b"0", b"1", b"5", b"K", b"L", b"S", b"g", b"x", b"X"))
            header[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(header))[0]
            tar[at : at + 512] = header
            data = gzip.compress(bytes(tar), 1)
        path.write_bytes(data)
        cifar100.load(str(folder))
        return len(sound) + len(data)

    return feed


def checkpoints(folder: Path) -> Feed:
    training = make_training(method="tfcsr", epochs=1)
    there = Checkpoints(folder / "checkpoint", "key")

    class Enough(Exception):
        pass

    def boundary() -> None:
        there.save(1, training.state_dict(), 0)
        raise Enough

    with suppress(Enough):
        training.run(boundary)
    sound = json.loads(there.manifest(1).read_text())
    tensors = there.tensors(1).read_bytes()
    header = int.from_bytes(tensors[:8], "little") + 8

    def feed(rng: random.Random) -> int:
        packed, whole, raw = tensors, sound, b""
        choice = rng.random()
        if choice < 0.4:
            packed = damage(tensors[: header + 64], rng, BINARY_PIECES + JSON_PIECES) + tensors[header + 64 :]
        elif choice < 0.5:
            raw = damage(json.dumps(sound).encode(), rng, JSON_PIECES)
        elif choice < 0.6:
            whole = mangled(sound, rng)
        else:
            whole = sound | {"content": mangled(sound["content"], rng)}
        if isinstance(whole, dict) and isinstance(whole.get("content"), dict) and rng.random() < 0.9:
            whole = whole | {"content": dict(whole["content"])}
            if isinstance(whole["content"].get("tensors"), dict):
                right = {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
                whole["content"]["tensors"] = whole["content"]["tensors"] | right
            whole["sha256"] = checkpoint._digest(whole["content"])
        raw = raw or json.dumps(whole).encode()
        there.manifest(1).write_bytes(raw)
        there.tensors(1).write_bytes(packed)
        _restore(training, Checkpoints(there.folder, "key"))
        return len(raw) + len(packed)

    return feed


def specs(folder: Path) -> Feed:
    spec = make_spec(class_order=[5, 4, 3, 2, 1, 0])
    now = Origins()[spec]
    sound = spec.to_dict() | {ORIGIN: now}
    toml = "\n".join(f"{name} = {json.dumps(value)}" for name, value in sound.items() if value is not None).encode()

    def feed(rng: random.Random) -> int:
        if rng.random() < 0.3:
            path, raw = folder / "a.toml", damage(toml, rng, JSON_PIECES)
        else:
            path = folder / "spec.json"
            whole = json.dumps(sound if rng.random() < 0.3 else mangled(sound, rng)).encode()
            raw = damage(whole, rng, JSON_PIECES) if rng.random() < 0.4 else whole
        path.write_bytes(raw)
        RunSpec.from_dict(load_spec_file(path))
        RunSpec.read(load_spec_file(path))
        RunFolder(folder).spec()
        RunFolder(folder).completed(spec, now)
        return len(raw)

    return feed


def results(folder: Path) -> Feed:
    path = folder / "run" / "result.json"
    sound = run(make_spec(method="tfcsr", epochs=2, tasks=2, out=str(path.parent))).to_dict()
    told = path.with_name("events.jsonl").read_bytes()
    path.with_name("spec.json").unlink()
    shown = 0

    def feed(rng: random.Random) -> int:
        nonlocal shown
        raw = damaged_json(sound, rng)
        path.write_bytes(raw)
        path.with_name("events.jsonl").write_bytes(damage(told, rng, JSON_PIECES))
        assert all(text.isprintable() for row in list_runs(folder) for text in row)
        if rng.random() < 0.2:  # whatever is there, the page has words for it
            everything = Results(folder)
            everything.look()
            assert json.loads(document(everything))["runs"]
            if everything.runs[0].state == "damaged":  # then without its result, as if it were under way
                path.unlink()
                path.with_name("spec.json").write_bytes(json.dumps(mangled(sound["spec"], rng)).encode())
                everything.look()
                assert len(json.loads(document(everything))["runs"]) == 1
                path.with_name("spec.json").unlink()
                path.write_bytes(raw)
        result = Result.from_dict(read_json(path), str(path))
        run_table(result)
        assert all(line for line in run_summary(result))
        shown += 1
        if shown % 50 == 0:  # slow, and only what passed gets here
            overview([result]).draw_without_rendering()
        return len(raw)

    return feed


def records(folder: Path) -> Feed:
    path = folder / "results.json"
    arms = ("cifar/tfcsr-1000/augmented", "cifar/er/alone", "cifar/mgp/augmented", "mnist/ewc-grid-1")
    runs = [record_like(ARMS[arm].spec(seed)) for arm in arms for seed in (0, 1)]
    session = {"command": "tfcsr reproduce", "date": "2026-01-01", "runs": 3, "seconds": 1.5}
    Records(runs, [session | {"machine": runs[0].environment}]).write(path)
    sound = json.loads(path.read_bytes())
    shown = 0

    def feed(rng: random.Random) -> int:
        nonlocal shown
        raw = damaged_json(sound, rng)
        path.write_bytes(raw)
        study = open_study(["table3", "fig-d1", "table1", "audit"], seeds=2, out=folder)
        shown += 1
        if shown % 20 == 0:  # slow, and only what passed gets here
            page_text(study)
        return len(raw)

    return feed


def record_like(spec: RunSpec) -> Record:
    """As `spec` might have left it, without having run."""
    spec = dense(spec)
    probes = [[t, e, 100.0] for t in range(1, spec.tasks + 1) for e in range(1, spec.epochs + 1)]
    return Record(
        accuracy_after_task=[50.0 + spec.seed] * spec.tasks,
        held_out_accuracy=20.0,
        replay_batches=3,
        optimizer_steps=9,
        epochs_per_task=[spec.epochs] * spec.tasks,
        probes=probes if spec.method == "tfcsr" else [],
        seconds=1.5,
        collapsed=None,
        weights_sha256="ab",
        spec=spec.to_dict(),
        environment={"gpu": None, "torch": "2", "cores": 2, "processor": "x"},
    )


READERS: dict[str, Callable[[Path], Feed]] = {
    "idx": idx,
    "cifar": cifar,
    "tar.gz": archive,
    "checkpoint": checkpoints,
    "spec": specs,
    "result": results,
    "records": records,
}


@contextmanager
def small_cifar() -> Iterator[None]:
    """Four images in place of fifty thousand."""
    before = cifar100.FINE, cifar100.COARSE, cifar100.PER_CLASS
    cifar100.FINE, cifar100.COARSE, cifar100.PER_CLASS = 4, 2, {"train.bin": 1, "test.bin": 1}
    try:
        yield
    finally:
        cifar100.FINE, cifar100.COARSE, cifar100.PER_CLASS = before


def fuzz(reader: str, inputs: int, seed: int) -> int:
    """How many of so many damaged inputs were refused; the others were still, or again, sound."""
    rng = random.Random(seed)
    refused = 0
    with tempfile.TemporaryDirectory() as place, small_cifar():
        feed = READERS[reader](Path(place))
        for i in range(inputs):
            before = rng.getstate()
            try:
                # Watching makes it several times slower.
                was_refused, taken = watched(feed, rng) if i % 10 == 0 else (is_refused(feed, rng), 0)
                if (
                    taken >= SPARE
                ):  # perhaps another thread's, or a module's that was imported: what is its own comes again
                    rng.setstate(before)
                    was_refused, taken = watched(feed, rng)
                assert taken < SPARE, f"it took {taken} bytes"
            except BaseException:
                print(f"{reader}, seed {seed}, input {i}:")
                raise
            refused += was_refused
    return refused


def is_refused(feed: Feed, rng: random.Random) -> bool:
    try:
        feed(rng)
    except TfcsrError as error:
        message = str(error)
        assert message.isprintable(), message
        assert len(message) < 3000, message
        return True
    return False


def watched(feed: Feed, rng: random.Random) -> tuple[bool, int]:
    """Whether the next input is refused, and the most memory that it took."""
    tracemalloc.start()
    try:
        return is_refused(feed, rng), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", default=",".join(READERS))
    options = parser.parse_args()
    os.environ["COLUMNS"] = "120"
    for reader in options.readers.split(","):
        started = time.monotonic()
        refused = fuzz(reader, options.inputs, options.seed)
        seconds, memory = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{reader}: {options.inputs} inputs, {refused} refused, {seconds:.0f} s, {memory} MiB at most", flush=True
        )


if __name__ == "__main__":
    main()
