"""Plain training on each task as it comes: the lower bound, which forgets."""

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method


@METHODS.add("finetune")
class Finetune(Method):
    style = ("#666666", "-")
    baseline = 1
