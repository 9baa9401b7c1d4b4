import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations, prune

from tfcsr.errors import SpecError
from tfcsr.models import MODELS
from tfcsr.models.head import Body, features, find_head, grow, in_two, named_head, resized, trace_head, without_head


def seed_of(row: int) -> int:
    return 1000 + row


class Backwards(nn.Module):
    """Its head is registered before everything that comes before it."""

    def __init__(self, last: nn.Module | None = None) -> None:
        super().__init__()
        self.head = nn.Linear(5, 3)
        self.encoder = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5))
        self.last = last or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.head(self.encoder(x)))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


# Finding it


def test_the_head_is_found_wherever_it_is_registered(x):
    model = Backwards()
    assert find_head(model) is model.encoder[2]  # which is why there is a better way
    assert trace_head(model, x) == "head"
    assert named_head(model, "head") is model.head
    assert trace_head(nn.Linear(4, 2), x) == ""
    assert trace_head(MODELS.get("cnn")((1, 8, 8), 5), torch.zeros(2, 1, 8, 8)) == "9"
    assert trace_head(model, x.double() * 2, lambda part: part.float() / 2) == "head"


def test_the_head_is_found_behind_what_changes_nothing(x):
    assert trace_head(Backwards(nn.Flatten()), x) == "head"
    assert trace_head(Backwards(nn.Dropout(0.0)), x) == "head"
    assert trace_head(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)), x) == "2"


@pytest.mark.parametrize(
    "last", [nn.Softmax(1), nn.Dropout(0.5), nn.AlphaDropout(0.1), nn.ReLU(inplace=True), nn.LogSoftmax(1)], ids=str
)
def test_a_layer_whose_output_is_changed_is_no_head(last, x):
    message = r"^no linear layer gives the model's output, .*: name it with head='...' \(.* are head, encoder.0, enc"
    with pytest.raises(SpecError, match=message):
        trace_head(Backwards(last), x)


def test_a_model_without_a_linear_layer_is_told_so():
    with pytest.raises(SpecError, match="it has no linear layer: give it"):
        trace_head(nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten()), torch.zeros(2, 1, 2, 2))


def test_what_is_no_score_per_class_is_refused(x):
    with pytest.raises(SpecError, match="one row per example"):
        trace_head(nn.Sequential(nn.Linear(4, 2), nn.Flatten(0)), x)


def test_a_name_that_is_no_linear_layer_is_refused_with_those_that_are():
    with pytest.raises(SpecError, match=r"head 'hed' is no .*no layer of that name; .* are head, encoder.0, enc.*2\)"):
        named_head(Backwards(), "hed")
    with pytest.raises(SpecError, match=r"the model has a Sequential there; .* are head, "):
        named_head(Backwards(), "encoder")
    with pytest.raises(SpecError, match="is no linear layer"):
        named_head(Backwards(), "head.weight")


def test_what_only_derives_from_a_linear_layer_is_none(x):
    class Packed(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 2)
            self.packed = self.weight.detach().clone()
            del self.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.packed.T

    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    with pytest.raises(SpecError, match="it has no linear layer"):
        trace_head(nn.Sequential(Packed()), x)
    assert trace_head(nn.Sequential(Scaled(4, 2)), x) == "0"


def test_a_lazy_layer_can_be_found(x):
    assert trace_head(nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)), x) == "2"


def test_tracing_leaves_the_model_as_it_was(x):
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
    model[1].eval()
    before = copy.deepcopy(model.state_dict())
    assert trace_head(model, x) == "2"
    assert [module.training for module in model] == [True, False, True]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(RuntimeError):
        trace_head(model, torch.zeros(2, 9))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_features_are_those_of_the_named_head(x):
    model = Backwards()
    assert torch.equal(features(model, x, head="head"), model.encoder(x))
    assert torch.equal(features(model, x), model.encoder[:2](x))
    with pytest.raises(SpecError, match="head 'nope'"):
        features(model, x, head="nope")


# Growing it


@given(
    first=st.integers(1, 5),
    more=st.integers(0, 4),
    most=st.integers(0, 4),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_growing_keeps_what_is_there_and_goes_by_rows(first, more, most, bias, dtype):
    one = nn.Linear(7, first, bias=bias, dtype=dtype)
    other = copy.deepcopy(one)
    was = {name: value.detach().clone() for name, value in one.named_parameters()}
    grow(one, first + more, seed_of)
    grow(one, first + more + most, seed_of)
    grow(other, first + more + most, seed_of)
    assert one.out_features == first + more + most
    assert {name for name, _ in one.named_parameters()} == {"weight", "bias"} - ({"bias"} if not bias else set())
    for name, value in one.named_parameters():
        assert torch.equal(value, dict(other.named_parameters())[name])
        assert torch.equal(value[:first], was[name])
        assert len(value) == one.out_features
        assert value.dtype == dtype
        assert value.is_contiguous()
        assert bool((value[first:].float().abs() <= 1 / 7**0.5 + 0.01).all())


def test_the_scores_of_old_classes_stay(x):
    model = Backwards()
    before = model(x)
    grow(model.head, 8, seed_of)
    assert model(x).shape == (6, 8)
    assert torch.allclose(model(x)[:, :3], before, atol=1e-6)


def test_a_new_row_is_drawn_by_its_own_seed_over_the_whole_range():
    head = nn.Linear(400, 1)
    state = torch.get_rng_state()
    grow(head, 3, seed_of)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(head.weight[1], head.weight[2])
    drawn = head.weight[1:].detach()
    assert 0.045 < float(drawn.max()) <= 0.05
    assert -0.05 <= float(drawn.min()) < -0.045
    without = nn.Linear(400, 1, bias=False)
    grow(without, 3, seed_of)
    assert torch.equal(without.weight[1:], drawn)


def test_a_grown_head_learns_on_even_while_an_older_loss_is_alive(x):
    model = Backwards()
    model.head.bias.requires_grad_(False)
    older = model(x).sum()  # autograd knows the weights by their old shape for as long as this lives
    older.backward(retain_graph=True)
    grow(model.head, 5, seed_of)
    weight, bias = model.head.weight, model.head.bias
    assert (weight.requires_grad, bias.requires_grad) == (True, False)
    assert isinstance(weight, nn.Parameter)
    assert weight.grad is None
    assert weight.is_leaf
    optimizer = torch.optim.SGD([weight], lr=0.1)
    before = weight.detach().clone()
    model(x).square().sum().backward()
    assert weight.grad.shape == (5, 5)
    optimizer.step()
    assert not torch.equal(weight[:3], before[:3])
    assert not torch.equal(weight[3:], before[3:])
    older.backward()


def test_all_rows_of_somebody_elses_head_are_drawn_anew():
    for outputs in (2, 1000, 1005):
        head = nn.Linear(4, 1000)
        resized(head, outputs, seed_of)
        assert head.out_features == outputs
        assert head(torch.zeros(1, 4)).shape == (1, outputs)
        grown = nn.Linear(4, 1)
        resized(grown, 1, seed_of)
        grow(grown, outputs, seed_of)
        assert torch.equal(grown.weight, head.weight)
        assert torch.equal(grown.bias, head.bias)


def test_what_cannot_be_grown_is_refused():
    head = nn.Linear(4, 3)
    with pytest.raises(SpecError, match="3 outputs cannot shrink to 2"):
        grow(head, 2, seed_of)
    with pytest.raises(SpecError, match="0 outputs"):
        resized(head, 0, seed_of)
    pruned = nn.Linear(4, 3)
    prune.random_unstructured(pruned, "weight", 0.5)
    normed = [parametrizations.spectral_norm(nn.Linear(4, 3)), parametrizations.weight_norm(nn.Linear(4, 3))]
    for layer in (*normed, pruned, torch.nn.utils.spectral_norm(nn.Linear(4, 3)), nn.LazyLinear(3)):
        with pytest.raises(SpecError, match="so it cannot grow: use a plain"):
            grow(layer, 5, seed_of)


# Doing without it


def test_without_its_head_a_model_gives_the_features(x):
    model = Backwards().train()
    headless = without_head(model, "head")
    assert torch.equal(headless(x), features(model, x, head="head"))
    assert isinstance(headless.head, nn.Identity)
    assert isinstance(model.head, nn.Linear)
    assert headless.encoder[0].weight is not model.encoder[0].weight
    assert torch.equal(without_head(nn.Linear(4, 2), "")(x), x)


def test_without_a_head_that_has_two_names(x):
    model = Backwards()
    model.also = nn.ModuleDict({"known": model.head})
    model.classifier = model.head
    model.forward = None  # type: ignore[assignment]
    headless = without_head(model, "classifier")
    for name in ("head", "classifier", "also.known"):
        assert isinstance(headless.get_submodule(name), nn.Identity)


def test_the_features_of_a_head_over_maps_are_flat():
    class Over(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x)

    maps = torch.randn(3, 5, 4)
    assert torch.equal(without_head(Over(), "head")(maps), maps.flatten(1))


def test_a_model_that_cannot_be_copied_is_told_so():
    model = Backwards()
    model.late = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(SpecError, match="cannot be copied: Only Tensors"):
        without_head(model, "head")


class Nested(nn.Module):
    """Its head is deep inside, and it behaves differently in training by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.inner = nn.ModuleDict({"norm": nn.BatchNorm1d(4), "top": nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.inner["norm"](x * self.scale)
        return self.inner["top"](seen * (2 if self.training else 1))


@pytest.mark.parametrize("model", [Backwards, Nested, lambda: nn.Linear(4, 3)], ids=["backwards", "nested", "linear"])
@pytest.mark.parametrize("training", [True, False])
def test_a_network_in_two_answers_as_in_one_and_learns_with_it(model, training, x):
    whole = model()
    name = trace_head(whole, x)
    body, plain = Body(whole, name), copy.deepcopy(whole)
    whole.train(training)
    plain.train(training)
    for _ in range(2):  # the second time, with other weights and statistics
        logits, fed = in_two(body.of(whole), body.head, x)
        expected = plain(x)
        assert torch.equal(logits, expected)
        assert torch.equal(named_head(plain, name)(fed), expected)
        for answer, network in ((logits, whole), (expected, plain)):
            network.zero_grad()
            answer.square().sum().backward()
            torch.optim.SGD(network.parameters(), lr=0.1).step()
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), plain.state_dict().values(), strict=True))
    assert list(whole.state_dict()) == list(plain.state_dict())


def test_the_body_follows_modules_that_change_their_mode_and_heads_that_grow(x):
    whole = Nested()
    body = Body(whole, "inner.top.1")
    whole.eval()
    quiet, _ = in_two(body.of(whole), body.head, x)
    assert torch.equal(quiet, whole(x))
    whole.train()
    whole.inner["norm"].eval()  # frozen for good
    before = whole.inner["norm"].running_mean.clone()
    loud, _ = in_two(body.of(whole), body.head, x)
    assert torch.equal(loud, whole(x))
    assert not torch.equal(loud, quiet)
    assert torch.equal(whole.inner["norm"].running_mean, before)
    grow(body.head, 7, seed_of)
    assert in_two(body.of(whole), body.head, x)[0].shape == (len(x), 7)


def test_a_head_with_two_names_is_left_out_under_both(x):
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.top = nn.Linear(4, 5), nn.Linear(5, 3)
            self.holder = nn.ModuleDict({"top": self.top})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.holder["top"](self.base(x))

    twice = Twice()
    body = Body(twice, "top")
    logits, fed = in_two(body.of(twice), body.head, x)
    assert torch.equal(logits, twice(x))
    assert torch.equal(fed, twice.base(x))
