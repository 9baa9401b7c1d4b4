"""Networks that a user brings: their head is found and grows, what is frozen stays so, and a folder holds no code."""

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.learner.conftest import (
    A,
    B,
    C,
    assert_alike,
    differences,
    essence,
    features,
    images,
    make,
    mlp,
    raw,
    refused,
    taught,
)
from tfcsr import Learner


class Net(nn.Module):
    """Its head is not the module that was made last, and has a linear layer beside it that says nothing."""

    def __init__(self, classes: int = 3, inputs: int = 64) -> None:
        super().__init__()
        self.fc = nn.Linear(8, classes)
        self.backbone = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.ReLU())
        self.unused = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.backbone(x))


def net(classes: int = 3) -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Net(classes)


def weights(module: nn.Module) -> dict[str, bytes]:
    return {name: raw(tensor) for name, tensor in module.state_dict().items()}


# How one is given


def test_a_module_is_trained_as_it_is():
    module = net()
    learner = taught(A, B, C, model=module)
    assert learner.model is module
    assert module.fc.out_features == 5
    assert module.fc.weight.shape == (5, 8)
    assert learner.state_dict()["head"] == "fc"
    assert weights(module) != weights(net())


def test_a_module_a_function_and_a_class_of_the_same_weights_are_the_same():
    def made(shape: tuple[int, ...], classes: int) -> nn.Module:
        return net(classes)

    def made_alone() -> nn.Module:
        return net(2)

    expected = essence(taught(A, B, C, model=net(2)))
    for model in (made, made_alone, functools.partial(made), lambda *shape: net(2), lambda s=0, c=0: net(2)):
        assert_alike(taught(A, B, C, model=model), expected)


def test_a_function_gets_the_shape_and_the_classes():
    asked = []

    def made(shape: tuple[int, ...], classes: int) -> nn.Module:
        asked.append((shape, classes))
        return mlp(shape, classes)

    taught(A, B, model=made)
    assert asked == [((1, 8, 8), 2)]


def test_a_function_draws_its_weights_by_the_seed():
    torch.manual_seed(1)
    one = taught(A)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    same, other = taught(A), taught(A, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert_alike(one, same)
    assert differences(essence(one)["loop"]["model"], essence(other)["loop"]["model"]) != []


def test_what_a_function_makes_must_be_a_network():
    with refused("made a int", "torch.nn.Module"):
        make(model=lambda shape, classes: 3).learn(*images(A))
    with refused("shape", "classes"):
        make(model=lambda shape: mlp(shape, 2)).learn(*images(A))
    with refused("shape", "classes"):
        make(model=lambda shape, classes, more: mlp(shape, classes)).learn(*images(A))


def test_what_a_function_raises_is_the_users():
    class Own(Exception):
        pass

    def broken(shape: tuple[int, ...], classes: int) -> nn.Module:
        raise Own

    learner = make(model=broken)
    with pytest.raises(Own):
        learner.learn(*images(A))
    assert learner.classes == []


class Particular(Net):
    """It says in its own way that it does not like what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


@pytest.mark.parametrize(
    "error", [AssertionError("224 pixels"), KeyError("ids"), AttributeError("no"), ZeroDivisionError()]
)
def test_whatever_a_network_says_to_the_first_examples_is_told_in_one_line(error):
    with refused("cannot take examples of shape (1, 8, 8)", str(error)):
        taught(A, model=Particular(error))


def test_a_network_that_has_no_weights_yet_is_told():
    with refused():
        taught(A, model=nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 2)))
    with refused():
        taught(A, model=net().to("meta"))


# Its head


@pytest.mark.parametrize("given", ["module", "function"])
def test_a_head_that_cannot_grow_is_told(given):
    def made() -> nn.Module:
        head = nn.utils.parametrizations.weight_norm(nn.Linear(8, 3))
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), head)

    learner = make(model=made() if given == "module" else made)
    with refused("cannot grow", "plain nn.Linear"):
        learner.learn(*images(A))
    assert learner.classes == []


def test_a_pretrained_head_of_other_classes_is_replaced():
    module = net(1000)
    learner = taught(A, model=module)
    assert module.fc.out_features == 2
    assert learner.predict_proba(images(A)[0]).shape == (24, 2)
    bound = 1 / 8**0.5
    assert float(module.fc.weight.detach().abs().max()) < bound + 0.2
    learner.learn(*images(B))
    assert module.fc.out_features == 4


def test_a_head_of_as_many_classes_as_there_are_is_kept():
    module = net(2)
    start = raw(module.fc.weight)
    seen = []
    learner = make(model=module)
    learner.learn(*images(A), listeners=[lambda e: seen.append(raw(module.fc.weight))])
    assert seen[0] == start


def test_the_backbone_begins_as_it_was_given():
    module = net(1000)
    before = weights(module.backbone)
    seen = []
    make(model=module).learn(*images(A), listeners=[lambda e: seen.append(weights(module.backbone))])
    assert seen[0] == before
    assert seen[-1] != before


def test_a_head_is_named_where_it_cannot_be_found():
    class Scaled(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    with refused("no linear layer gives the model's output", "head='...'", "fc", "backbone.1", "unused"):
        taught(A, model=Scaled())
    learner = taught(A, B, C, model=Scaled(), head="fc", epochs=6)
    assert learner.model.fc.out_features == 5
    assert learner.evaluate(*images((*A, "a", "b", "c"), seed=4)).accuracy > 70


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("cf", ("'cf'", "no layer of that name", "fc")),
        ("backbone", ("'backbone'", "Sequential")),
        ("backbone.2", ("ReLU",)),
        ("unused", ("'unused'", "scores")),
        ("backbone.1", ("'backbone.1'",)),
        ("", ("''", "Net")),
    ],
)
def test_a_head_that_is_none(head, words):
    module = net()
    before = weights(module)
    learner = make(model=module, head=head)
    with refused(*words):
        learner.learn(*images(A))
    assert weights(module) == before


def test_the_network_may_be_its_own_head(folder):
    learner = make(model=nn.Linear(6, 3))
    for labels in (("m", "n"), ("a", "m")):
        learner.learn(*features(labels))
    assert learner.model.out_features == 3
    assert learner.state_dict()["head"] == ""
    learner.save(folder)
    found = Learner.load(folder, model=nn.Linear(6, 9))
    straight = make(model=lambda shape, classes: nn.Linear(6, classes))
    for labels in (("m", "n"), ("a", "m")):
        straight.learn(*features(labels))
    assert found.model.out_features == 3
    assert len(found.classes) == 3


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Flatten(), nn.ReLU()), ("no linear layer", "nn.Linear at its end")),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), ("no linear layer",)),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU()), ("no linear layer gives", "head='...'", "1")),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Dropout(0.5)), ("no linear layer gives",)),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 4)), ("cannot take examples of shape (1, 8, 8)",)),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 2)), ("cannot take examples", "(1, 8, 8)")),
        (nn.Linear(8, 4), ("logits",)),
        (nn.LSTM(8, 4), ("cannot take examples",)),
        (nn.Embedding(4, 4), ("cannot take examples",)),
        (nn.Identity(), ("logits",)),
    ],
)
def test_networks_that_cannot_do_it_are_told_in_one_line(model, words):
    before = weights(model)
    learner = make(model=model)
    with refused(*words):
        learner.learn(*images(A))
    assert learner.classes == []
    assert weights(model) == before


@pytest.mark.parametrize(
    ("name", "x", "said"),
    [
        ("cnn", features(("m", "n"))[0], "(6,)"),
        ("resnet18", features(("m", "n"))[0], "(6,)"),
        ("cnn", images(A)[0][..., :3], "8x3"),
        ("cnn", np.zeros((24, 2, 1, 8, 8), np.uint8), "(2, 1, 8, 8)"),
        ("cnn", np.zeros((24, 9, 9), np.uint8), "(9, 9)"),
    ],
)
def test_so_are_ours(name, x, said):
    learner = make(model=name)
    with refused(said):
        learner.learn(x, images(A)[1])
    assert learner.classes == []


def test_ours_by_name():
    learner = taught(A, B, model="cnn")
    assert learner.evaluate(*images((*A, "a", "b"), seed=4)).accuracy > 70
    assert list(learner.model.state_dict()["9.bias"].shape) == [4]


# What is frozen


class Frozen(nn.Module):
    """A backbone with statistics and dropout that is not to be trained, under a head that is."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten()
        )
        self.neck = nn.Linear(256, 8)
        self.fc = nn.Linear(8, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.neck(self.backbone(x)).relu())


def frozen() -> Frozen:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        module = Frozen()
    module.backbone.requires_grad_(False).eval()
    return module


@pytest.mark.parametrize("method", ["tfcsr", "ewc", "si", "icarl", "derpp", "joint", "mgp"])
def test_what_is_frozen_stays_so(folder, method):
    module = frozen()
    before = weights(module.backbone)
    learner, straight = make(method, model=module), make(method, model=frozen())
    for one in (learner, straight):
        one.learn(*images(A))
    assert weights(module.backbone) == before
    learner.predict(images(A)[0])
    learner.save(folder)
    found = Learner.load(folder, model=frozen())
    fresh = Frozen()  # as somebody has it who has forgotten what was frozen
    forgotten = Learner.load(folder, model=fresh)
    for one in (found, straight, forgotten):
        model = one.model
        assert [m.training for m in model.backbone.modules()] == [False] * 6
        assert model.training
        assert [p.requires_grad for p in model.backbone.parameters()] == [False] * 4
        if one is not forgotten:
            one.learn(*images(B))
            one.learn(*images(C))
            assert weights(model.backbone) == before
    assert_alike(found, straight)
    assert fresh.fc.weight.requires_grad
    assert weights(found.model.neck) != weights(module.neck)


def test_a_failure_leaves_it_frozen():
    module = frozen()
    learner = taught(A, model=module)

    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(*images(B), listeners=[interrupt])
    assert [m.training for m in module.backbone.modules()] == [False] * 6
    assert [p.requires_grad for p in module.backbone.parameters()] == [False] * 4
    assert module.training


def test_a_network_that_is_frozen_throughout_is_told():
    with refused("no parameter that is trained"):
        taught(A, model=net().requires_grad_(False))


def test_a_network_in_eval_mode_is_trained_all_the_same():
    learner = taught(A, model=net().eval())
    assert_alike(learner, taught(A, model=net()))


def test_tied_weights_stay_tied(folder):
    class Tied(nn.Module):
        def __init__(self, classes: int = 2) -> None:
            super().__init__()
            self.one = nn.Linear(8, 8)
            self.two = nn.Linear(8, 8)
            self.two.weight = self.one.weight
            self.fc = nn.Linear(8, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.two(self.one(x.flatten(1)[:, :8]).relu()).relu())

    def made(shape: tuple[int, ...], classes: int) -> nn.Module:
        return Tied(classes)

    learner, straight = taught(A, model=made), taught(A, model=made)
    learner.save(folder)
    found = Learner.load(folder, model=made)
    for one in (found, straight):
        one.learn(*images(B))
        assert one.model.one.weight is one.model.two.weight
    assert_alike(found, straight)


def test_a_head_that_is_used_twice_under_two_names():
    class Twice(Net):
        def __init__(self, classes: int = 3) -> None:
            super().__init__(classes)
            self.also = self.fc

    learner = taught(A, B, C, model=Twice())
    assert learner.model.also is learner.model.fc
    assert learner.model.fc.out_features == 5


# Loading


def test_a_folder_holds_no_code(folder):
    taught(A, model=net()).save(folder)
    with refused("model", "Net", "give it again", "load(..., model=...)"):
        Learner.load(folder)
    taught(A, model="cnn").save(folder.with_name("other"))
    with refused("without a model", "leave model out"):
        Learner.load(folder.with_name("other"), model=net())


@pytest.mark.parametrize("model", [net, net(), net(1000), lambda shape, classes: net(classes)])
def test_it_is_loaded_into_any_of_the_same_form(folder, model):
    learner = taught(A, B, model=net())
    learner.save(folder)
    found = Learner.load(folder, model=copy.deepcopy(model))
    assert_alike(found, learner)
    x, _ = images(A, seed=3)
    np.testing.assert_array_equal(found.predict_proba(x), learner.predict_proba(x))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
        nn.Identity(),
        Net(2, inputs=63),
        lambda: nn.Linear(3, 4),
        lambda: 3,
        Frozen(),
    ],
)
def test_another_network_is_refused_in_one_line(folder, model):
    taught(A, model=net()).save(folder)
    with refused():
        Learner.load(folder, model=model)


@pytest.mark.parametrize("frozen", [True, False])
def test_what_is_frozen_is_decided_before_the_first_learn(frozen, tmp_path):
    """A parameter the optimizer does not know would never be trained, in silence."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))
    net[1].requires_grad_(frozen)
    learner = make(model=net)
    learner.learn(*images(A))
    net[1].requires_grad_(not frozen)
    with refused("1.weight", "frozen" if frozen else "trained"):
        learner.learn(*images(B))
    with refused("1.weight"):
        learner.save(tmp_path / "l")
    net[1].requires_grad_(frozen)
    learner.learn(*images(B))
