"""Training on the data of all tasks so far: the upper bound, which keeps everything."""

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method


@METHODS.add("joint")
class Joint(Method):
    sees_all_tasks = True
    style = ("#000000", ":")
