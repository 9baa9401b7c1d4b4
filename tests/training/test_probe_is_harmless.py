"""TFC-SR and ER with one seed are the same training run, bit for bit; and this test notices when they are not."""

import pytest
import torch
from tests.conftest import trained

from tfcsr.methods.learner import Learner
from tfcsr.recall.probe import Recall

SETTINGS = {"epochs": 6, "augment": "crop-flip"}


def weights(**fields):
    return trained(**SETTINGS, **fields).weights_sha256()


def test_tfcsr_equals_er():
    assert weights(method="tfcsr") == weights(method="er")


def test_thresholds_and_schedules_do_not_reach_the_weights():
    easy, hard = (
        trained(**SETTINGS, method="tfcsr", mastery_threshold=0),
        trained(**SETTINGS, method="tfcsr", mastery_threshold=100, lr=1e-3),
    )
    assert len(easy.learner.probes) < len(hard.learner.probes)
    assert easy.weights_sha256() == hard.weights_sha256()
    assert weights(method="tfcsr", schedule="fixed") == weights(method="er")


def test_the_papers_protocol_too():
    assert weights(method="tfcsr", protocol="paper") == weights(method="er", protocol="paper")


@pytest.mark.parametrize(("threshold", "epochs"), [(0, "1,3,5"), (100, "1,2,3,4,5,6")])
def test_the_papers_spaced_replay_is_er_in_the_epochs_its_probe_chose(threshold, epochs):
    """Passing every probe or none; from the second task on."""
    spaced = weights(method="tfcsr-spaced", mastery_threshold=threshold, lr=1e-4)
    assert spaced == weights(method="er", replay_epochs=f"none/{epochs}", lr=1e-4) != weights(method="er", lr=1e-4)


@pytest.mark.parametrize("generator", ["order", "reservoir", "replay", "augmentation"])
def test_a_probe_that_touches_a_training_generator_is_noticed(monkeypatch, generator):
    def careless(learner: Learner, task: int, epoch: int) -> Recall:
        learner.buffer.draw(1, 4, learner.generators[generator])
        return Recall(100.0, {})

    monkeypatch.setattr(Learner, "recall", careless)
    with pytest.raises(AssertionError):
        test_tfcsr_equals_er()


RECALL = Learner.recall


def test_a_probe_that_leaves_the_model_in_eval_mode_is_noticed(monkeypatch):
    def careless(learner, task, epoch):
        found = RECALL(learner, task, epoch)
        learner.model.eval()
        return found

    monkeypatch.setattr(Learner, "recall", careless)
    with pytest.raises(AssertionError):
        test_tfcsr_equals_er()


def test_a_probe_that_moves_the_statistics_is_noticed(monkeypatch):
    def careless(learner, task, epoch):
        learner.logits(learner.buffer.x, train_mode=True)
        return RECALL(learner, task, epoch)

    monkeypatch.setattr(Learner, "recall", careless)
    with pytest.raises(AssertionError):
        test_tfcsr_equals_er()


def test_a_probe_that_learns_is_noticed(monkeypatch):
    def careless(learner, task, epoch):
        size = len(learner.buffer)
        x = learner.views.normalised(learner.buffer.x[:size])
        torch.nn.functional.cross_entropy(learner.model(x), learner.buffer.y[:size]).backward()
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter -= 1e-4 * parameter.grad
        return RECALL(learner, task, epoch)

    monkeypatch.setattr(Learner, "recall", careless)
    with pytest.raises(AssertionError):
        test_tfcsr_equals_er()
