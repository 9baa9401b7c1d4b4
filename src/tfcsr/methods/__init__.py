"""Continual-learning methods, one file each; `base.py` says what a method may do."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfcsr.registry import Registry

if TYPE_CHECKING:
    from tfcsr.methods.base import Method

BESIDE = ("base", "consolidation", "distance", "distillation", "fisher", "learner")
METHODS: "Registry[type[Method]]" = Registry("method", __name__, beside=BESIDE, needs=("loss", "check"))


def preferred_baseline(names: Iterable[str]) -> str | None:
    """Of several methods the one that says the others should be compared with it; an unknown one says nothing."""
    known = set(METHODS.names())
    ranks = {name: vars(METHODS.get(name)).get("baseline", 0) for name in names if name in known}
    best = max(ranks, key=ranks.__getitem__, default=None)
    return best if best is not None and ranks[best] else None
