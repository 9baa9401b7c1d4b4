"""The diagonal of the Fisher information: sums of squared gradients, each of one example's own loss.

The squared gradient of a batch's mean loss, which is what a framework gives at once, is something else: within a batch
gradients cancel.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcsr.errors import SpecError
from tfcsr.methods.base import NEVER
from tfcsr.models.batch_norm import Synchronised2d

# Examples that are looked at together.
BATCH = 512
# Bytes of gradients, one per example and weight, that are held at once.
MOST_BYTES = 256 << 20
# Examples with which the layers' way is checked.
CHECKED = 8


def of_batches(
    model: nn.Module,
    parameters: Sequence[nn.Parameter],
    batches: Iterable[tuple[Tensor, Tensor]],
    count: int,
    within: Callable[[Tensor, Tensor], Tensor],
) -> list[Tensor]:
    """What the paper takes for it: the mean over so many batches of the squared gradient of the batch's mean loss."""
    mean = [torch.zeros_like(p) for p in parameters]
    for x, y in batches:
        loss = F.cross_entropy(within(model(x), y), y)
        # A parameter that this loss does not reach has no say in it.
        for part, g in zip(mean, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
            if g is not None:
                part += g.square() / count
    return mean


class SquaredGradients:
    """Σ_n w_n (∂ log p(label of n | example n) / ∂θ)² for each of the parameters, gathered a batch at a time; the model
    is to be in eval mode.

    Layers that are known have a short way, by what goes into them, a, and what comes back, g. In a linear layer an
    example's gradient is their outer product, so that the sum of squares over examples is (G²)ᵀ A², one product of
    matrices. For all other parameters the network is asked for each example's gradient, which takes longer.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.model = model
        self.parameters = list(parameters)
        self.totals = [torch.zeros_like(p) for p in self.parameters]
        self.examples = 0
        self._place = {id(p): i for i, p in enumerate(self.parameters)}
        self._layers = [module for module in model.modules() if _is_known(module) and self._own(module)]
        self._checked = False

    def mean(self) -> list[Tensor]:
        """Over all examples so far."""
        return [total / max(1, self.examples) for total in self.totals]

    def add(self, x: Tensor, allowed: Tensor, labels: Tensor | None) -> None:
        """Examples as the model takes them. Their answers range over the classes `allowed`, [N, classes]. Without
        labels each class is a label, weighted by its probability: the expectation over the model's own answers.
        """
        self.examples += len(x)
        if self._layers and not self._add_by_layers(x, allowed, labels):
            self._layers = []
        done = {self._place[id(p)] for layer in self._layers for p in self._own(layer)}
        if rest := [i for i in range(len(self.parameters)) if i not in done]:
            self._add_one_by_one(rest, x, allowed, labels)

    def _own(self, layer: nn.Module) -> list[nn.Parameter]:
        return [p for p in layer.parameters(recurse=False) if id(p) in self._place]

    def _add_by_layers(self, x: Tensor, allowed: Tensor, labels: Tensor | None) -> bool:
        """False, with nothing added, where the short way does not lead there."""
        calls = _Calls(self._layers)
        with torch.enable_grad(), calls:
            logits = self.model(x)
        if not calls.plain or not calls.seen:
            return False
        log_p = F.log_softmax(logits.float().masked_fill(~allowed, NEVER), dim=1)
        moved = [moved for _, moved in calls.seen.values()]
        for label, weight in _asked(log_p.detach(), labels):
            each = log_p.gather(1, label[:, None])
            if not self._checked and not self._agrees(calls, each[:CHECKED].sum()):
                return False
            self._checked = True
            gradients = torch.autograd.grad(each.sum(), moved, retain_graph=True, allow_unused=True)
            for (layer, (entered, _)), g in zip(calls.seen.items(), gradients, strict=True):
                if g is not None:
                    self._add_squares(layer, entered, g, weight)
        return True

    def _add_squares(self, layer: nn.Module, entered: Tensor, g: Tensor, weight: Tensor) -> None:
        own = {id(p) for p in self._own(layer)}
        if isinstance(layer, nn.Linear):
            squares = weight[:, None] * g.square()
            if id(layer.weight) in own:
                self.totals[self._place[id(layer.weight)]] += squares.T @ entered.square()
            if id(layer.bias) in own:
                self.totals[self._place[id(layer.bias)]] += squares.sum(dim=0)
            return
        for part in torch.arange(len(g), device=g.device).split(_at_once(layer, entered)):
            for p, each in _gradients(layer, entered[part], g[part]):
                if id(p) in own:
                    self.totals[self._place[id(p)]] += torch.tensordot(weight[part], each.square(), dims=1)

    def _agrees(self, calls: "_Calls", chosen: Tensor) -> bool:
        """Whether the layers' gradients for the first few examples are the network's: not so, if a weight is used
        elsewhere, too.
        """
        moved = [moved for _, moved in calls.seen.values()]
        whole = torch.autograd.grad(chosen, self.parameters, retain_graph=True, allow_unused=True)
        parts = torch.autograd.grad(chosen, moved, retain_graph=True, allow_unused=True)
        found: dict[int, Tensor] = {}
        for (layer, (entered, _)), g in zip(calls.seen.items(), parts, strict=True):
            for p, each in _gradients(layer, entered[:CHECKED], g[:CHECKED]) if g is not None else ():
                found[id(p)] = each.sum(dim=0)
        for layer in self._layers:
            for p in self._own(layer):
                one, other = whole[self._place[id(p)]], found.get(id(p))
                a, b = (torch.zeros(()) if part is None else part for part in (one, other))
                if float((a - b).abs().max()) > 1e-3 * float(a.abs().max() + b.abs().max()) + 1e-12:
                    return False
        return True

    def _add_one_by_one(self, which: list[int], x: Tensor, allowed: Tensor, labels: Tensor | None) -> None:
        names = {id(p): name for name, p in self.model.named_parameters()}
        weights = {names[id(self.parameters[i])]: self.parameters[i].detach() for i in which}

        def lost(weights: dict[str, Tensor], x: Tensor, allowed: Tensor, label: Tensor) -> Tensor:
            logits = torch.func.functional_call(self.model, weights, (x[None],))
            return F.cross_entropy(logits.float().masked_fill(~allowed, NEVER), label[None])

        each = torch.func.vmap(torch.func.grad(lost), in_dims=(None, 0, 0, 0), randomness="different")
        size = max(1, MOST_BYTES // max(1, sum(w.numel() * w.element_size() for w in weights.values())))
        with torch.no_grad():
            log_p = F.log_softmax(self.model(x).float().masked_fill(~allowed, NEVER), dim=1)
        for label, weight in _asked(log_p, labels):
            for part in torch.arange(len(x), device=x.device).split(size):
                gradients = _of_each(each, weights, x[part], allowed[part], label[part])
                for i, g in zip(which, gradients.values(), strict=True):
                    self.totals[i] += torch.tensordot(weight[part], g.square(), dims=1)


def _asked(log_p: Tensor, labels: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """The labels that a batch's examples are asked for, one each, and with what weight."""
    if labels is not None:
        yield labels, torch.ones_like(log_p[:, 0])
        return
    for label in (log_p > NEVER / 2).any(dim=0).nonzero().flatten():
        yield label.expand(len(log_p)), log_p[:, label].exp()


def _of_each(each: Any, *given: Any) -> dict[str, Tensor]:
    try:
        gradients: dict[str, Tensor] = each(*given)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise SpecError(f"this network has no gradients for one example at a time ({why}): use fisher batch") from error
    return gradients


def _is_known(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    normalises = type(layer) in (nn.BatchNorm2d, Synchronised2d)
    return type(layer) is nn.Linear or (normalises and getattr(layer, "running_var", None) is not None)


def _gradients(layer: nn.Module, entered: Tensor, g: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Of a layer's parameters for each example, [N, *shape], by what went in and what comes back."""
    if isinstance(layer, nn.Linear):
        yield layer.weight, g[:, :, None] * entered[:, None, :]
        bias = g
    elif isinstance(layer, nn.Conv2d):
        columns = F.unfold(entered, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
        yield layer.weight, (g.flatten(2) @ columns.transpose(1, 2)).reshape(len(g), *layer.weight.shape)
        bias = g.flatten(2).sum(dim=2)
    else:
        assert isinstance(layer, nn.BatchNorm2d)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        mean, deviation = layer.running_mean, (layer.running_var + layer.eps).sqrt()
        centred = (entered - mean[:, None, None]) / deviation[:, None, None]
        yield layer.weight, (g * centred).flatten(2).sum(dim=2)
        bias = g.flatten(2).sum(dim=2)
    if layer.bias is not None:
        yield layer.bias, bias


def _at_once(layer: nn.Module, entered: Tensor) -> int:
    """Of how many examples the gradients fit into memory."""
    each = sum(p.numel() for p in layer.parameters(recurse=False)) + 2 * entered[0].numel()
    if isinstance(layer, nn.Conv2d):  # each pixel that goes in is there once for each place of the kernel
        each += entered[0].numel() * layer.kernel_size[0] * layer.kernel_size[1]
    return max(1, MOST_BYTES // (entered.element_size() * each))


class _Calls:
    """What goes into layers while it is entered, and what is added to what comes out: nothing, but with a gradient."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self.layers = layers
        self.seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.plain = True

    def __enter__(self) -> None:
        self.handles = [layer.register_forward_hook(self._called) for layer in self.layers]

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _called(self, layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        if layer in self.seen or len(given) != 1 or given[0].ndim != (2 if isinstance(layer, nn.Linear) else 4):
            self.plain = False
            return output
        # What comes out may be changed in place later; what is added to it stays.
        moved = torch.zeros_like(output, requires_grad=True)
        self.seen[layer] = (given[0].detach(), moved)
        return output + moved
