"""A network people keep: what `tfcsr.Learner` and the commands learn, predict and recall are made of."""

from tfcsr.learner.learner import Learner as Learner
