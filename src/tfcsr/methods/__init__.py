"""Continual-learning methods, one file each; `base.py` says what a method may do."""

from typing import TYPE_CHECKING

from tfcsr.registry import Registry

if TYPE_CHECKING:
    from tfcsr.methods.base import Method

METHODS: "Registry[type[Method]]" = Registry("method", __name__)
