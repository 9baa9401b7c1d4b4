"""A run's own folder: `spec.json`, `events.jsonl`, `checkpoint` while it is under way; `result.json` and
`model.safetensors` once it is complete. In `buffer` lie the examples of a buffer on disk.
"""

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfcsr.errors import OutputError, SpecError, counted
from tfcsr.experiments.history import HISTORY
from tfcsr.experiments.origin import Origin, changes
from tfcsr.experiments.result import Result
from tfcsr.files import LOCK, PART, locked, read_json, require_folder, write_json, writing
from tfcsr.options import format_value
from tfcsr.spec import NOT_IDENTITY, ORIGIN, RunSpec

# The first field of a result, as it is written.
_ACCURACY = re.compile(rb'\{\s*"final_accuracy": (\d{1,3}(?:\.\d{1,20})?)[,\s]')


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.spec_file = self.path / "spec.json"
        self.events_file = self.path / "events.jsonl"
        self.checkpoint_folder = self.path / "checkpoint"
        self.buffer_folder = self.path / "buffer"
        self.result_file = self.path / "result.json"
        self.model_file = self.path / "model.safetensors"

    def spec(self) -> RunSpec:
        """What was begun here, as a run in this folder, wherever it has been moved to."""
        return self._begun()[0].replace(out=str(self.path))

    def _begun(self) -> tuple[RunSpec, Any]:
        """The spec that was begun here, and its origin as far as the folder tells."""
        values, origin = self._written()
        try:
            return RunSpec.read(values), origin
        except SpecError as error:
            raise OutputError(f"{self.spec_file} cannot be used: {error}") from None

    def _written(self) -> tuple[dict[str, Any], Any]:
        """The same, as it stands in the file."""
        if not self.spec_file.exists():
            raise OutputError(f"{self.path} holds no run: give the folder of a run, or of a comparison")
        values = read_json(self.spec_file)
        if not isinstance(values, dict):
            raise OutputError(f"{self.spec_file} is damaged: it does not hold a spec")
        if "learner" in values:
            raise OutputError(f"{self.path} holds a learner, not a run: `tfcsr learn {self.path} --data ...` goes on")
        return values, values.pop(ORIGIN, {})

    def holds(self, spec: RunSpec, origin: Origin) -> bool:
        """Whether it is this very run that was begun or completed here, from the same code and data."""
        try:
            values, its_origin = self._written()
            same = _says(values, spec) or self._begun()[0].identity() == spec.identity()
        except OutputError:
            return False
        return same and not changes(its_origin, origin)

    def completed(self, spec: RunSpec, origin: Origin) -> Result | None:
        """The result if this spec's run is complete here; an error if the folder holds anything but this run."""
        require_folder(self.path)
        if not self.path.exists():
            return None
        if not self.spec_file.exists():
            with writing(self.path):
                if any(path.name != LOCK and path.suffix != PART for path in self.path.iterdir()):
                    raise OutputError(f"{self.path} is not empty and holds no run: choose another --out")
            return None
        self._refuse_other(spec, origin)
        if not self.result_file.exists():
            return None
        return Result.from_dict(read_json(self.result_file), str(self.result_file))

    def _refuse_other(self, spec: RunSpec, origin: Origin) -> None:
        values, its_origin = self._written()
        here = spec.to_dict()
        there = here if _says(values, spec) else self._begun()[0].to_dict()
        names = [k for k in {**here, **there} if k not in NOT_IDENTITY and here.get(k) != there.get(k)]
        if names:
            differences = ", ".join(
                f"{k} {format_value(there.get(k))} there, {format_value(here.get(k))} here" for k in names[:3]
            )
            more = f" and {counted(len(names) - 3, 'more field')}" if len(names) > 3 else ""
            raise OutputError(f"{self.path} holds a run with another spec ({differences}{more}): choose another --out")
        if others := changes(its_origin, origin):
            raise OutputError(
                f"{self.path} holds this run, but it would not come out the same now ({'; '.join(others)}): choose"
                " another --out, or move it away"
            )

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """The folder to this process alone; gone again if nothing is written into it."""
        new = [path for path in (self.path, *self.path.parents) if not path.exists()]
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.path):
                with writing(self.path):
                    for path in self.path.glob(f".*{PART}"):  # what a killed process was writing
                        path.unlink()
                yield
        finally:
            with contextlib.suppress(OSError):
                for path in new:
                    path.rmdir()

    def create(self, spec: RunSpec, origin: Origin) -> None:
        write_json(self.spec_file, spec.to_dict() | {ORIGIN: origin})


def _says(values: dict[str, Any], spec: RunSpec) -> bool:
    """Whether a file says this very run, in today's words. Then it need not be understood, which takes longer: a
    comparison asks thousands of folders.
    """
    here = spec.to_dict()
    return values.keys() == here.keys() and all(values[k] == here[k] for k in here if k not in NOT_IDENTITY)


class RunFolders:
    """A folder of run folders, in which a run is found by what it is: an earlier version may have given it another
    name, and one with other code or data may have its name already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @functools.cached_property
    def _by_key(self) -> dict[str, list[RunFolder]]:
        found: dict[str, list[RunFolder]] = {}
        for file in sorted(self.folder.glob("*/spec.json")):
            with contextlib.suppress(OutputError):
                run = RunFolder(file.parent)
                found.setdefault(run.spec().key(), []).append(run)
        return found

    def place(self, spec: RunSpec, origin: Origin) -> Path:
        """Where this run is, or is to be."""
        path = self.folder / spec.name()
        if (path / "spec.json").exists() and RunFolder(path).holds(spec, origin):
            return path
        for run in self._by_key.get(spec.key(), []):
            if run.holds(spec, origin):
                return run.path
        number = 2
        while path.exists() and not _is_free(path):
            path = self.folder / f"{spec.name()}-{number}"
            number += 1
        return path


def _is_free(path: Path) -> bool:
    """Whether nothing was ever begun there."""
    return path.is_dir() and not (path / "spec.json").exists()


def incomplete_runs(folder: Path) -> list[RunSpec]:
    """The runs in a comparison's folder that were begun there and are not complete."""
    begun = sorted(folder.glob("*/spec.json"))
    if not begun:
        raise OutputError(f"{folder} holds no run: give the folder of a run, or of a comparison")
    folders = [RunFolder(file.parent) for file in begun]
    return [run.spec() for run in folders if not run.result_file.exists() and not (run.path / HISTORY).exists()]


def list_runs(folder: Path) -> list[tuple[str, str]]:
    """Each run in a folder of run folders by name, with how far it is; no more is read than is shown."""
    try:
        with os.scandir(folder) as entries:
            paths = sorted((entry.name, entry.path) for entry in entries if entry.is_dir())
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror}") from None
    runs = [(name, _progress(path)) for name, path in paths]
    return [(name, progress) for name, progress in runs if progress]


def _progress(path: str) -> str:
    try:
        with open(f"{path}/result.json", "rb") as file:  # noqa: PTH123 - a Path would cost more than the reading
            accuracy = _ACCURACY.match(file.read(200))
    except FileNotFoundError:
        if not os.path.exists(f"{path}/spec.json"):  # noqa: PTH110
            return ""
        if os.path.exists(f"{path}/{HISTORY}"):  # noqa: PTH110
            return "a learner"
        numbers = [int(file.stem) for file in Path(path, "checkpoint").glob("*.json") if file.stem.isdecimal()]
        return f"incomplete, saved after {counted(max(numbers), 'epoch')}" if numbers else "incomplete"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return f"{float(accuracy[1]):.2f} %" if accuracy else "damaged: no final accuracy at its start"


def read_results(folder: Path) -> list[Result]:
    """The results of all complete runs in a folder of run folders, by name."""
    files = sorted(folder.glob("*/result.json"))
    return [Result.from_dict(read_json(file), str(file)) for file in files]
