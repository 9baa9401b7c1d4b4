"""A method that worker processes import from here: it says with how many threads it is trained."""

import torch

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method


@METHODS.add("counts-threads")
class CountsThreads(Method):
    """Says with how many threads it is trained."""

    def begin_task(self, task):
        self.learner.emit("threads", number=torch.get_num_threads())
