"""Classes that come later: what was known of the others stays as it was, and nothing depends on the order of names."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.learner.conftest import (
    SHIPPED,
    A,
    B,
    C,
    assert_alike,
    differences,
    dropping,
    essence,
    features,
    images,
    make,
    mlp,
    normalising,
    raw,
    refused,
    taught,
)
from tfcsr import Learner


class Moments:
    """Copies of a learner at certain moments of a learn."""

    def __init__(self, learner: Learner, *kinds: str) -> None:
        self.learner, self.kinds = learner, kinds or ("task_started",)
        self.states: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] in self.kinds:
            self.states.append(copy.deepcopy(self.learner.state_dict())["loop"])
            self.events.append(event)


def grown(learner: Learner, x: Any, y: Any) -> dict[str, Any]:
    """Its state when its head has grown and no step has been taken."""
    moments = Moments(learner)
    learner.learn(x, y, listeners=[moments])
    return moments.states[0]


def plain(method: str = "tfcsr", **options: Any) -> Learner:
    """One whose network takes the examples as they are."""
    return make(method, normalise="none", **options)


def answers(weights: dict[str, torch.Tensor], x: np.ndarray) -> torch.Tensor:
    model = mlp(x.shape[1:], len(weights["3.bias"]))
    model.load_state_dict(weights)
    with torch.no_grad():
        return model(torch.from_numpy(x))


# The paper's finding


def test_tfcsr_is_er_to_the_bit():
    tfcsr, er = (essence(taught(A, B, C, method=method)) for method in ("tfcsr", "er"))
    assert len(tfcsr["probes"]) > 2
    for part in ("model", "optimizer", "buffer", "generators", "progress"):
        assert differences(tfcsr["loop"][part], er["loop"][part]) == [], part
    assert differences(tfcsr["labels"], er["labels"]) == []
    assert differences([i["recall"] for i in tfcsr["instalments"]], [i["recall"] for i in er["instalments"]]) == []


def test_also_where_replay_and_probes_are_augmented_and_dropped():
    options = {"model": dropping, "augment": "crop-flip", "lr_schedule": "cosine"}
    tfcsr, er = (essence(taught(A, B, C, method=method, **options)) for method in ("tfcsr", "er"))
    for part in ("model", "optimizer", "buffer", "generators"):
        assert differences(tfcsr["loop"][part], er["loop"][part]) == [], part


# Names


def test_a_label_that_sorts_earlier_shifts_nothing():
    learner = make()
    x, y = images(A)
    learner.learn(x, y)
    first = list(dict.fromkeys(y))
    assert learner.classes == first
    x, y = images(B)
    learner.learn(x, y)
    assert learner.classes == [*first, *(label for label in dict.fromkeys(y) if label != "m")]


@pytest.mark.parametrize("method", SHIPPED)
def test_what_the_classes_are_called_does_not_matter(method):
    names = {"m": "z", "n": "y", "a": 1, "b": ("x", 2), "c": "0"}
    one, other = make(method), make(method)
    for labels in (A, B, C):
        x, y = images(labels)
        one.learn(x, y)
        other.learn(x, [names[label] for label in y])
    assert other.classes == [names[label] for label in one.classes]
    one, other = essence(one), essence(other)
    del one["labels"], other["labels"]
    assert_alike(one, other)


# The head


def test_what_was_said_of_old_classes_is_said_after_growing():
    learner = plain()
    learner.learn(*features(("m", "n")))
    x, _ = features(("m", "n"), seed=3)
    weights = copy.deepcopy(learner.model.state_dict())
    before = answers(weights, x)
    now = grown(learner, *features(("b", "a", "m")))["model"]
    after = answers(now, x)
    assert after.shape == (len(x), 4)
    torch.testing.assert_close(after[:, :2], before, rtol=0, atol=1e-6)
    for name, tensor in weights.items():
        assert raw(now[name][: len(tensor)]) == raw(tensor), name
    assert now["3.weight"].shape == (4, 16)
    assert learner.model[3].out_features == 4


def test_new_rows_begin_within_the_bounds_of_a_linear_layer_and_differ():
    learner = plain()
    learner.learn(*features(("m", "n")))
    new = grown(learner, *features(tuple("abcdef")))["model"]["3.weight"][2:]
    assert float(new.abs().max()) <= 1 / 4  # of 16 inputs
    assert float(new.std()) == pytest.approx(1 / 4 / 3**0.5, rel=0.2)
    assert len({raw(row) for row in new}) == 6


@pytest.mark.parametrize(
    ("optimizer", "kept"), [("adam", ("exp_avg", "exp_avg_sq")), ("adamw", ("exp_avg",)), ("sgd", ("momentum_buffer",))]
)
def test_moments_of_old_rows_are_kept_and_new_ones_begin_at_zero(optimizer, kept):
    learner = plain(optimizer=optimizer)
    learner.learn(*features(("m", "n")))
    was = copy.deepcopy(learner.state_dict()["loop"]["optimizer"])
    now = grown(learner, *features(("b", "a", "m")))["optimizer"]
    assert now["state"].keys() == was["state"].keys() == {0, 1, 2, 3}
    for name in kept:
        for number in range(4):
            old, new = was["state"][number][name], now["state"][number][name]
            assert raw(new[: len(old)]) == raw(old)
            assert not bool(new[len(old) :].any())
            assert bool(old.any())
        assert now["state"][2][name].shape == (4, 16)
    if optimizer != "sgd":
        assert [float(now["state"][n]["step"]) for n in range(4)] == [float(was["state"][n]["step"]) for n in range(4)]
    assert now["param_groups"] == was["param_groups"]


def test_the_optimizer_goes_on_with_the_rows_that_are_there():
    learner = plain()
    learner.learn(*features(("m", "n")))
    before = grown(learner, *features(("a",)))
    after = learner.state_dict()["loop"]
    for name in ("3.weight", "3.bias"):
        moved = (before["model"][name] != after["model"][name]).reshape(3, -1).any(dim=1)
        assert moved.tolist() == [True] * 3


def test_growing_in_two_goes_is_growing_in_one():
    at_once, one_by_one = plain(), plain()
    for learner in (at_once, one_by_one):
        learner.learn(*features(("m", "n")))
    whole = grown(at_once, *features(("b", "a", "c")))["model"]
    for place, label in enumerate(("b", "a", "c"), start=2):
        one = grown(one_by_one, *features((label,)))["model"]
        assert len(one["3.weight"]) == place + 1
        assert raw(one["3.weight"][place]) == raw(whole["3.weight"][place])
        assert raw(one["3.bias"][place]) == raw(whole["3.bias"][place])


def test_known_classes_leave_the_head_alone():
    learner = plain()
    learner.learn(*features(("m", "n")))
    head = learner.model[3]
    weight = head.weight
    learner.learn(*features(("n", "m"), seed=1))
    assert learner.model[3] is head
    assert head.weight is weight
    assert learner.classes == ["m", "n"] or learner.classes == ["n", "m"]


def test_the_network_is_the_same_module_however_it_grows():
    learner = taught(A)
    model = learner.model
    learner.learn(*images(B))
    assert learner.model is model
    assert [name for name, _ in model.named_parameters()] == ["1.weight", "1.bias", "3.weight", "3.bias"]


@pytest.mark.parametrize("method", SHIPPED)
def test_one_class_at_a_time(method):
    learner = make(method)
    for label in "hacn":
        done = learner.learn(*images((label,)))
        assert done.new_classes == (label,)
    assert learner.classes == list("hacn")
    assert learner.model[3].out_features == 4
    if method in ("er", "tfcsr", "derpp", "icarl", "joint"):
        assert learner.evaluate(*images(tuple("hacn"), seed=3)).accuracy > 60


def test_a_head_without_a_bias_grows():
    def biasless(shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, classes, bias=False))

    learner = taught(A, B, C, model=biasless)
    assert learner.model[3].weight.shape == (5, 8)
    assert learner.model[3].bias is None


@pytest.mark.parametrize("method", ["er", "finetune"])
def test_one_example_alone(method):
    x, y = images(("c",), each=1)
    learner = taught(A, method=method)
    learner.learn(x, y)
    assert learner.history[-1].examples == 1
    normal = taught(A, method=method, model=normalising)
    if method == "er":
        normal.learn(x, y)
    else:
        with refused("one example alone", "batch normalisation"):
            normal.learn(x, y)


# What methods keep


def test_der_holds_an_old_example_to_what_was_said_of_the_classes_there_were():
    # Each epoch is one step, on all new examples and, twice, on the whole memory: nothing depends on what is drawn.
    options = {"batch_size": 16, "buffer_capacity": 8, "epochs": 3, "alpha": 0.3, "beta": 0.7, "lr": 0.05}
    learner = plain("derpp", **options)
    learner.learn(*features(("m", "n"), each=8))
    x, y = features(("b", "a"), each=4)
    moments = Moments(learner, "task_started", "epoch_finished")
    learner.learn(x, y, listeners=[moments])
    assert [event.get("epoch") for event in moments.events] == [None, 1, 2, 3]
    assert moments.events[1]["optimizer_steps"] + 1 == moments.events[2]["optimizer_steps"]
    cross_entropy = nn.functional.cross_entropy
    new = torch.tensor([learner.classes.index(label) for label in y])
    for state, event in zip(moments.states[:3], moments.events[1:], strict=True):
        memory = state["buffer"]
        assert memory["size"] == 8
        stored = memory["logits"]
        assert stored.shape == (8, 4)
        assert bool(stored[:, :2].isfinite().all())
        said, again = answers(state["model"], x), answers(state["model"], memory["x"].numpy())
        # Of the two classes that came later nothing was stored: they add 0, and count among the four.
        distance = (again[:, :2] - stored[:, :2]).square().sum() / (8 * 4)
        loss = cross_entropy(said, new) + 0.3 * distance + 0.7 * cross_entropy(again, memory["y"])
        assert event["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert float(distance) > 1e-4


def test_der_keeps_what_was_stored_before_a_class_came():
    learner = taught(A, method="derpp")
    was = learner.state_dict()["loop"]["buffer"]
    now = grown(learner, *images(B))["buffer"]
    size = was["size"]
    assert raw(now["logits"][:size, :2]) == raw(was["logits"][:size])
    assert raw(now["x"]) == raw(was["x"])
    assert torch.equal(now["y"], was["y"])


def test_si_anchors_new_rows_where_they_begin():
    learner = plain("si")
    learner.learn(*features(("m", "n")))
    was = copy.deepcopy(learner.state_dict()["loop"]["method"])
    state = grown(learner, *features(("b", "a", "m")))
    now, weights = state["method"], list(state["model"].values())
    assert len(weights) == len(now["anchor"]) == 4
    for i, weight in enumerate(weights):
        for name in ("anchor", "previous"):
            old = was[name][i]
            assert raw(now[name][i][: len(old)]) == raw(old)
            assert raw(now[name][i][len(old) :]) == raw(weight[len(old) :])
        for name in ("path", "total", "importance"):
            old = was[name][i]
            assert raw(now[name][i][: len(old)]) == raw(old)
            assert not bool(now[name][i][len(old) :].any())
    assert any(bool(part.any()) for part in was["importance"])


def test_ewc_has_nothing_against_new_rows():
    learner = plain("ewc")
    learner.learn(*features(("m", "n")))
    was = copy.deepcopy(learner.state_dict()["loop"]["method"])
    now = grown(learner, *features(("b", "a", "m")))["method"]
    for name in ("curvature", "lowest"):
        for old, new in zip(was[name], now[name], strict=True):
            assert raw(new[: len(old)]) == raw(old)
            assert not bool(new[len(old) :].any())
    assert [part.shape[0] for part in now["curvature"]] == [16, 16, 4, 4]


def test_icarl_answers_with_new_classes():
    learner = make("icarl", buffer_capacity=10)
    for labels in (A, B, C):
        learner.learn(*images(labels))
        found = learner.evaluate(*images(labels, seed=7))
        assert min(found.per_class.values()) > 60
    everything = tuple(sorted({*A, *B, *C}))
    assert set(learner.predict(images(everything, seed=8)[0])) == set(everything)
    assert learner.recall().kept == dict.fromkeys(learner.classes, 2)


def test_icarl_distils_what_the_network_said_before():
    learner = make("icarl")
    learner.learn(*images(A))
    learner.learn(*images(B))
    state = grown(learner, *images(C))
    method = state["method"]
    assert method["known"].tolist() == [1, 1, 1, 1, 0]
    old = next(iter(method["old"].values()))
    assert old["3.weight"].shape == (5, 16)
    # The outputs that are new begin in the copy as they do in the network.
    assert raw(old["3.weight"][4]) == raw(state["model"]["3.weight"][4])


def test_joint_sees_everything_again():
    learner = make("joint", lr=0.01)
    for labels in (A, B, C):
        done = learner.learn(*images(labels))
        assert done.examples == len(images(labels)[0])
    assert [len(part["y"]) for part in learner.state_dict()["past"]] == [24, 36, 12]
    assert [i["steps"] for i in learner.state_dict()["instalments"]] == [6, 16, 18]
    assert learner.evaluate(*images((*A, "a", "b", "c"), seed=5)).accuracy > 90


def test_replay_keeps_what_plain_training_loses():
    def stream(method: str) -> float:
        learner = make(method, epochs=8, lr=0.02)
        for label in "hacn":
            learner.learn(*images((label, chr(ord(label) + 3)), seed=1))
        return learner.evaluate(*images(("h", "k"), seed=2)).accuracy

    assert stream("er") > stream("finetune") + 20
