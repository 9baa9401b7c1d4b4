"""The Fisher information's diagonal: two ways to it, each against a loop over examples and classes."""

import numpy as np
import pytest
import torch
from tests.conftest import make_training, trained
from torch import nn
from torch.nn import functional as F

import tfcsr.methods.fisher as fisher
from tfcsr.errors import SpecError
from tfcsr.methods.fisher import SquaredGradients
from tfcsr.models import MODELS
from tfcsr.spec import RunSpec

CLASSES = 5


def mlp(bias=True):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(9, 7, bias=bias), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, CLASSES)
    )


class Named(nn.Module):
    """Calls a layer by a name for what goes in, which a hook does not see."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(9, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.last(input=self.first(x.flatten(1)).relu())


class Twice(nn.Module):
    """One layer that is called twice."""

    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(9, 9), nn.Linear(9, CLASSES)

    def forward(self, x):
        return self.last(self.same(self.same(x.flatten(1)).relu()).tanh())


class Tied(nn.Module):
    """A weight that is also used without its layer, which nothing but its gradient tells."""

    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(9, 9), nn.Linear(9, CLASSES)

    def forward(self, x):
        return self.last(F.linear(self.same(x.flatten(1)).relu(), self.same.weight))


class Shared(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(9, 9), nn.Linear(9, 9), nn.Linear(9, CLASSES)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.last(self.two(self.one(x.flatten(1)).relu()))


class Rows(nn.Module):
    """A layer that is called on three rows per example."""

    def __init__(self):
        super().__init__()
        self.row, self.last = nn.Linear(3, 4), nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.last(self.row(x.squeeze(1)).relu().flatten(1))


class Idle(nn.Module):
    """A layer that is never called."""

    def __init__(self):
        super().__init__()
        self.idle, self.last = nn.Linear(9, 9), nn.Linear(9, CLASSES)

    def forward(self, x):
        return self.last(x.flatten(1))


def frozen():
    model = mlp()
    model[1].weight.requires_grad_(False)
    model[3].bias.requires_grad_(False)
    return model


def in_place():
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.ReLU(inplace=True), nn.Linear(6, CLASSES))


def conv():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(3, CLASSES),
    )


def strided():
    """Convolutions as networks have them: strided, dilated, without a bias."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 2, stride=1, padding=2, dilation=2),
        nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, CLASSES),
    )


def partly():
    """Layers that are known and one that is not."""
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(36, CLASSES))


SHORT = {"mlp": mlp, "no bias": lambda: mlp(bias=False), "frozen": frozen, "in place": in_place, "idle": Idle}
SHORT |= {"conv": conv, "strided": strided, "partly": partly}
LONG = {"twice": Twice, "tied": Tied, "shared": Shared, "rows": Rows, "named": Named}
NETWORKS = SHORT | LONG


def made(kind):
    torch.manual_seed(3)
    model = NETWORKS[kind]().eval()
    return model, [p for p in model.parameters() if p.requires_grad]


def examples(count=11):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, 1, 3, 3, generator=draw)
    y = torch.randint(CLASSES, (count,), generator=draw)
    allowed = torch.rand(count, CLASSES, generator=draw) < 0.6
    allowed[torch.arange(count), y] = True
    return x, y, allowed


def by_hand(model, parameters, x, y, allowed, exact):
    """One example, one class, one gradient at a time; the answer is taken among the allowed classes alone."""
    total = [torch.zeros_like(p) for p in parameters]
    for one, label, ok in zip(x, y.tolist(), allowed, strict=True):
        among = ok.nonzero().flatten().tolist()
        log_p = F.log_softmax(model(one[None])[0, among], dim=0)
        for c in among if exact else [label]:
            chosen = log_p[among.index(c)]
            weight = chosen.exp().item() if exact else 1.0
            gradients = torch.autograd.grad(chosen, parameters, retain_graph=True, allow_unused=True)
            for t, g in zip(total, gradients, strict=True):
                if g is not None:
                    t += weight * g.square()
    return [t / len(x) for t in total]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("exact", [False, True], ids=["examples", "exact"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_it_is_what_a_loop_over_examples_gives(kind, exact):
    model, parameters = made(kind)
    x, y, allowed = examples()
    gathered = SquaredGradients(model, parameters)
    for part in (slice(0, 6), slice(6, 11)):
        gathered.add(x[part], allowed[part], None if exact else y[part])
    assert_close(gathered.mean(), by_hand(model, parameters, x, y, allowed, exact))
    assert bool(gathered._layers) == (kind in SHORT)
    assert not any(m._forward_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("exact", [False, True], ids=["examples", "exact"])
@pytest.mark.parametrize("kind", SHORT)
def test_both_ways_lead_to_the_same(kind, exact):
    model, parameters = made(kind)
    x, y, allowed = examples(40)
    found = []
    for short in (True, False):
        gathered = SquaredGradients(model, parameters)
        gathered._layers = gathered._layers if short else []
        gathered.add(x, allowed, None if exact else y)
        found.append(gathered.mean())
    assert_close(*found)


def test_few_examples_at_a_time_give_the_same(monkeypatch):
    model, parameters = made("rows")
    x, _, allowed = examples()
    whole, parts = SquaredGradients(model, parameters), SquaredGradients(model, parameters)
    whole.add(x, allowed, None)
    asked = []
    one_by_one = fisher._of_each
    monkeypatch.setattr(fisher, "_of_each", lambda *given: asked.append(len(given[2])) or one_by_one(*given))
    monkeypatch.setattr(fisher, "MOST_BYTES", 3 * 4 * sum(p.numel() for p in parameters))
    parts.add(x, allowed, None)
    assert max(asked) == 3
    assert_close(parts.mean(), whole.mean())


def test_so_do_few_examples_of_a_layer(monkeypatch):
    model, parameters = made("strided")
    x, _, allowed = examples()
    found = []
    for most in (fisher.MOST_BYTES, 4 * 300):
        monkeypatch.setattr(fisher, "MOST_BYTES", most)
        found.append(SquaredGradients(model, parameters))
        found[-1].add(x, allowed, None)
    assert fisher._at_once(model[1], torch.zeros(1, 3, 5, 5)) == 1
    assert_close(found[0].mean(), found[1].mean())


def test_exact_is_the_mean_over_labels_drawn_from_the_answers():
    model, parameters = made("mlp")
    x, _, _ = examples(2)
    everything = torch.ones(2, CLASSES, dtype=torch.bool)
    exact = SquaredGradients(model, parameters)
    exact.add(x, everything, None)
    drawn = SquaredGradients(model, parameters)
    labels = torch.multinomial(model(x).softmax(dim=1), 40_000, True, generator=torch.Generator().manual_seed(0))
    for row, label in zip(x, labels, strict=True):
        drawn.add(row[None].expand(40_000, 1, 3, 3), everything[:1].expand(40_000, CLASSES), label)
    for one, other in zip(drawn.mean(), exact.mean(), strict=True):
        torch.testing.assert_close(one, other, rtol=0.1, atol=1e-3)


class Choosy(nn.Module):
    """What it does with an example depends on what it finds in it."""

    def __init__(self, shape, classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.linear = nn.Linear(int(np.prod(shape)), classes)

    def forward(self, x):
        return self.linear(x.flatten(1)) * (self.scale if x.mean() > 0 else -self.scale)


@pytest.fixture
def choosy():
    MODELS.add("choosy")(Choosy)
    yield "choosy"
    MODELS.remove("choosy")


@pytest.mark.parametrize("kind", ["examples", "exact"])
def test_a_network_that_cannot_be_asked_so_says_it_before_it_is_trained(choosy, kind):
    steps = []
    training = make_training((lambda event: steps.append(event["event"]),), method="ewc", model=choosy, fisher=kind)
    with pytest.raises(SpecError, match=r"one example at a time \(.*\): use fisher batch") as caught:
        training.run()
    assert "\n" not in str(caught.value)
    assert "epoch_finished" not in steps
    trained(method="ewc", model=choosy, fisher="batch", epochs=1)


# In EWC


def test_what_it_is_by_default_under_each_protocol_and_in_old_folders():
    assert RunSpec(method="ewc").fisher == "examples"
    assert RunSpec(method="ewc", protocol="paper").fisher == "batch"
    assert RunSpec.read({"benchmark": "split-digits", "method": "ewc"}).fisher == "batch"
    assert "fisher" not in RunSpec(method="ewc", fisher="batch").identity()
    assert RunSpec(method="ewc").identity()["fisher"] == "examples"


@pytest.mark.parametrize("model", ["tiny-linear", "tiny-bn"])
@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
@pytest.mark.parametrize("kind", ["examples", "exact"])
def test_ewc_gathers_it_after_each_task_over_the_classes_that_count(kind, scenario, model):
    training = make_training(method="ewc", fisher=kind, scenario=scenario, model=model, epochs=1, max_per_class=6)
    method, network = training.method, training.model
    seen, found = set(), []

    def gathered(task):
        found.append(of_task(task))
        seen.update(task.classes)
        with torch.no_grad():
            network.eval()
            x = training.learner.views.normalised(task.train.x)
        among = {"class": seen if kind == "exact" else range(6), "task": task.classes, "domain": range(2)}[scenario]
        allowed = torch.zeros(len(x), training.learner.classes, dtype=torch.bool)
        allowed[:, sorted(among)] = True
        expected = by_hand(network, method.parameters(), x, task.train.y, allowed, kind == "exact")
        network.train()
        assert_close(found[-1], expected)
        return found[-1]

    of_task, method._fisher = method._fisher, gathered
    training.run()
    assert len(found) == 3
    assert any(bool((part > 0).any()) for part in found[-1])


def test_it_leaves_modes_generators_and_augmentation_as_the_paper_s_does():
    """With all three the network is trained on the same views: the check before training draws none."""
    states = []
    for kind in ("batch", "examples", "exact"):
        training = make_training(method="ewc", fisher=kind, augment="crop-flip", tasks=1, batch_size=16)
        training.run()
        states.append((training.weights_sha256(), training.learner.generators["dropout"].get_state().tolist()))
        assert all(module.training for module in training.model.modules())
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("kind", ["batch", "examples", "exact"])
def test_a_file_s_pages_are_given_back_now_and_then(kind, monkeypatch):
    training = make_training(method="ewc", fisher=kind, epochs=1)
    released = []
    monkeypatch.setattr("tfcsr.data.tasks.Examples.release", lambda self: released.append(len(self)))
    training.method.begin_task(training.tasks.task(1))
    training.method.end_task(training.tasks.task(1))
    assert released == [80]
