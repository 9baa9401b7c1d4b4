"""The paper's idea, usable on its own in anyone's loop: the probe, the exam, the schedules and the agenda.

Each is a module of its own, imported when it is first used: `tfcsr.recall.schedule` does not wait for torch.
"""

import importlib
from typing import Any

_MODULES = ("agenda", "exam", "probe", "schedule")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tfcsr.recall' has no attribute {name!r}")
    return importlib.import_module(f"tfcsr.recall.{name}")
