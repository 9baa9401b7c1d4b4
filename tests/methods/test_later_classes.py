"""The check that a method can follow a head that grows: what passes it, and what it says to the others."""

import pytest
import torch

from tfcsr.methods import METHODS
from tfcsr.methods.base import Method
from tfcsr.methods.er import ExperienceReplay
from tfcsr.testing import METHOD_CHECKS, learns_classes_that_come_later


@pytest.fixture
def check():
    """Runs the check for a method, under a name it has until the test is over."""

    def one(method):
        METHODS.add("mine")(method)
        learns_classes_that_come_later("mine")

    yield one
    METHODS.remove("mine")


def test_it_is_one_of_the_checks():
    assert learns_classes_that_come_later in METHOD_CHECKS


class Centred(ExperienceReplay):
    """Keeps a mean logit for each pair of classes: a table whose shape `Method.grow` does not know."""

    def __init__(self, learner):
        super().__init__(learner)
        self.table = torch.zeros(learner.classes, learner.classes)

    def loss(self, batch, logits):
        self.table.index_add_(0, batch.y, logits.detach().float(), alpha=1e-3)
        return super().loss(batch, logits)


class Followed(Centred):
    """The same, and it follows."""

    def grow(self, before):
        super().grow(before)
        table = torch.zeros(self.learner.classes, self.learner.classes)
        table[:before, :before] = self.table
        self.table = table


def test_a_table_that_does_not_follow_is_told_to(check):
    with pytest.raises(
        AssertionError, match=r"table still has shape \(2, 2\), with 4 classes \(4, 4\): override `grow`"
    ):
        check(Centred)


def test_a_table_that_follows_passes(check):
    check(Followed)


def test_a_state_that_comes_into_being_later_is_seen_too(check):
    class Later(Method):
        table = None

        def end_task(self, task):
            if self.table is None:
                self.table = torch.zeros(3, self.learner.classes)

    with pytest.raises(AssertionError, match=r"table still has shape \(3, 2\).*override `grow`"):
        check(Later)


def test_what_breaks_on_the_way_is_told_in_one_line(check):
    class Listed(Method):
        """A number for each class, in a list."""

        def __init__(self, learner):
            super().__init__(learner)
            self.weights = [1.0] * learner.classes

        def loss(self, batch, logits):
            weights = torch.tensor(self.weights)
            return torch.nn.functional.cross_entropy(logits, batch.y, weight=weights)

    with pytest.raises(
        AssertionError, match=r"it fails with classes that come later \(.*\): override `grow`"
    ) as caught:
        check(Listed)
    assert "\n" not in str(caught.value)


def test_a_loss_that_is_no_number_with_new_classes_is_told(check):
    class Counted(Method):
        """Divides by what it has seen of each class; new entries of a tensor are 0."""

        def __init__(self, learner):
            super().__init__(learner)
            self.share = torch.ones(learner.classes)

        def loss(self, batch, logits):
            return (super().loss(batch, logits) / self.share).mean()

    with pytest.raises(AssertionError, match=r"fails with classes that come later \(the loss of mine became inf"):
        check(Counted)


def test_scores_for_the_old_classes_alone_are_told(check):
    class Narrow(Method):
        def __init__(self, learner):
            super().__init__(learner)
            self.known = learner.classes

        def predict(self, x):
            return super().predict(x)[:, : self.known]

    with pytest.raises(AssertionError, match=r"scores for 4 classes: override `grow`"):
        check(Narrow)


def test_to_touch_the_old_weights_is_told(check):
    class Restless(Method):
        def grow(self, before):
            super().grow(before)
            with torch.no_grad():
                self.learner.model[-1].bias[0] += 1e-6

    with pytest.raises(AssertionError, match=r"4\.bias of the old classes has changed while the head grew"):
        check(Restless)


def test_what_grow_sets_and_no_state_holds_is_told(check):
    class Secret(Method):
        """A pull that begins when the head grows, and that a state does not tell of."""

        def __init__(self, learner):
            super().__init__(learner)
            self.pull = 0.0

        def grow(self, before):
            super().grow(before)
            self.pull = 0.5

        def penalty(self):
            return self.pull * sum(p.square().sum() for p in self.parameters())

        def state_dict(self):
            return {}

    with pytest.raises(AssertionError, match="a grown network's state leads elsewhere"):
        check(Secret)
