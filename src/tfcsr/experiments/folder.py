"""A run's own folder: `spec.json`, `events.jsonl` and, once it is complete, `result.json`."""

import json
from pathlib import Path
from typing import Any

from tfcsr.errors import OutputError
from tfcsr.experiments.result import Result
from tfcsr.files import write_json, writing
from tfcsr.spec import NOT_IDENTITY, RunSpec, format_value


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.spec_file = self.path / "spec.json"
        self.events_file = self.path / "events.jsonl"
        self.result_file = self.path / "result.json"

    def completed(self, spec: RunSpec) -> Result | None:
        """The result if this spec's run is complete here; an error if the folder holds anything but this spec."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise OutputError(f"{self.path} is not a folder: choose another --out")
        if not self.spec_file.exists():
            with writing(self.path):
                if any(self.path.iterdir()):
                    raise OutputError(f"{self.path} is not empty and holds no run: choose another --out")
            return None
        self._refuse_other(spec, _read_json(self.spec_file))
        if not self.result_file.exists():
            return None
        return Result.from_dict(_read_json(self.result_file), str(self.result_file))

    def _refuse_other(self, spec: RunSpec, there: Any) -> None:
        here = spec.to_dict()
        there = there if isinstance(there, dict) else {}
        names = [k for k in {**here, **there} if k not in NOT_IDENTITY and here.get(k) != there.get(k)]
        if names:
            differences = ", ".join(
                f"{k} {format_value(there.get(k))} there, {format_value(here.get(k))} here" for k in names[:3]
            )
            more = f" and {len(names) - 3} more fields" if len(names) > 3 else ""
            raise OutputError(f"{self.path} holds a run with another spec ({differences}{more}): choose another --out")

    def create(self, spec: RunSpec) -> None:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.spec_file, spec.to_dict())


def read_results(folder: Path) -> list[Result]:
    """The results of all complete runs in a folder of run folders, by name."""
    files = sorted(folder.glob("*/result.json"))
    return [Result.from_dict(_read_json(file), str(file)) for file in files]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise OutputError(f"{path} is damaged: it is not JSON; move its folder away to run again") from None
