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

# Examples that are looked at together.
BATCH = 512
# Bytes of gradients, one per example and weight, that are held at once.
MOST_BYTES = 256 << 20
# Far below any logit: no probability is left for it.
NEVER = -1e4


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

    A network whose parameters are all of linear layers, each called once on rows of numbers, takes a short way: a
    row's gradient is the outer product of what comes back, g, and what went in, a, so that the sum of its squares over
    rows is (G²)ᵀ A², one product of matrices. Any other network is asked for each example's gradient, some at a time.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.model = model
        self.parameters = list(parameters)
        self.totals = [torch.zeros_like(p) for p in self.parameters]
        self.examples = 0
        self._linear = _linear_layers(model, self.parameters)
        self._checked = False

    def mean(self) -> list[Tensor]:
        """Over all examples so far."""
        return [total / max(1, self.examples) for total in self.totals]

    def add(self, x: Tensor, allowed: Tensor, labels: Tensor | None) -> None:
        """Examples as the model takes them. Their answers range over the classes `allowed`, [N, classes]. Without
        labels each class is a label, weighted by its probability: the expectation over the model's own answers.
        """
        self.examples += len(x)
        if self._linear is None or not self._add_by_layers(self._linear, x, allowed, labels):
            self._linear = None
            self._add_one_by_one(x, allowed, labels)

    def _add_by_layers(
        self, layers: "dict[nn.Module, list[int]]", x: Tensor, allowed: Tensor, labels: Tensor | None
    ) -> bool:
        """False, with nothing added, where the short way does not lead there."""
        calls = _Calls(layers)
        with torch.enable_grad(), calls:
            logits = self.model(x)
        if not calls.plain or not calls.seen:
            return False
        log_p = F.log_softmax(logits.float().masked_fill(~allowed, NEVER), dim=1)
        back = [torch.zeros_like(moved) for _, moved in calls.seen.values()]
        for label, weight in _asked(log_p.detach(), labels):
            chosen = log_p.gather(1, label[:, None]).sum()
            moved = [moved for _, moved in calls.seen.values()]
            if not self._checked and not self._agrees(calls, layers, chosen, moved):
                return False
            self._checked = True
            gradients = torch.autograd.grad(chosen, moved, retain_graph=True, allow_unused=True)
            for total, g in zip(back, gradients, strict=True):
                if g is not None:
                    total += weight[:, None] * g.square()
        for (layer, (entered, _)), squares in zip(calls.seen.items(), back, strict=True):
            for i in layers[layer]:
                self.totals[i] += squares.T @ entered.square() if self.parameters[i].ndim == 2 else squares.sum(dim=0)
        return True

    def _agrees(
        self, calls: "_Calls", layers: "dict[nn.Module, list[int]]", chosen: Tensor, moved: list[Tensor]
    ) -> bool:
        """Whether gᵀ a is the gradient: not so, if a weight is used elsewhere, too."""
        whole = torch.autograd.grad(chosen, self.parameters, retain_graph=True, allow_unused=True)
        parts = torch.autograd.grad(chosen, moved, retain_graph=True, allow_unused=True)
        found: list[Tensor | None] = [None] * len(whole)
        for (layer, (entered, _)), g in zip(calls.seen.items(), parts, strict=True):
            for i in layers[layer] if g is not None else ():
                found[i] = g.T @ entered if self.parameters[i].ndim == 2 else g.sum(dim=0)
        for one, other in zip(whole, found, strict=True):
            a, b = (torch.zeros(()) if part is None else part for part in (one, other))
            if float((a - b).abs().max()) > 1e-3 * float(a.abs().max() + b.abs().max()) + 1e-12:
                return False
        return True

    def _add_one_by_one(self, x: Tensor, allowed: Tensor, labels: Tensor | None) -> None:
        names = {id(p): name for name, p in self.model.named_parameters()}
        weights = {names[id(p)]: p.detach() for p in self.parameters}

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
                for total, g in zip(self.totals, gradients.values(), strict=True):
                    total += torch.tensordot(weight[part], g.square(), dims=1)


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


def _linear_layers(model: nn.Module, parameters: list[nn.Parameter]) -> "dict[nn.Module, list[int]] | None":
    """The linear layers and which of the parameters are theirs; None where some belong to others."""
    place = {id(p): i for i, p in enumerate(parameters)}
    found: dict[nn.Module, list[int]] = {}
    for module in model.modules():
        own = [place[id(p)] for p in module.parameters(recurse=False) if id(p) in place]
        if own and type(module) is not nn.Linear:
            return None
        if own:
            found[module] = own
    return found


class _Calls:
    """What goes into layers while it is entered, and what is added to what comes out: nothing, but with a gradient."""

    def __init__(self, layers: "dict[nn.Module, list[int]]") -> None:
        self.layers = layers
        self.seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.plain = True

    def __enter__(self) -> None:
        self.handles = [layer.register_forward_hook(self._called) for layer in self.layers]

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _called(self, layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        if layer in self.seen or len(given) != 1 or given[0].ndim != 2:
            self.plain = False
            return output
        # What comes out may be changed in place later; what is added to it stays.
        moved = torch.zeros_like(output, requires_grad=True)
        self.seen[layer] = (given[0].detach(), moved)
        return output + moved
