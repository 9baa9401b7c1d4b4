"""The last linear layer of a network: finding it, what it is fed with (the features), and giving it more outputs."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from tfcsr.errors import SpecError
from tfcsr.models.predict import in_parts, logits, mode

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Features(nn.Identity):
    """Stands where the head was, and gives what the head was fed with."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float().flatten(1)


def find_head(model: nn.Module, name: str | None = None) -> nn.Linear:
    """The linear layer of this name; without one, the last there is."""
    if name is not None:
        return named_head(model, name)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SpecError("the model has no linear layer at its end: there are no features to read")
    return linear[-1]


def named_head(model: nn.Module, name: str) -> nn.Linear:
    """The linear layer of this name."""
    try:
        module: nn.Module | None = model.get_submodule(name)
    except AttributeError:
        module = None
    if module is not None and _is_linear(module):
        assert isinstance(module, nn.Linear)
        return module
    what = "has no layer of that name" if module is None else f"has a {type(module).__name__} there"
    raise SpecError(f"head {name!r} is no linear layer: the model {what}; {_listed(model)}")


def trace_head(model: nn.Module, x: Tensor, prepare: Callable[[Tensor], Tensor] = lambda x: x) -> str:
    """The name of the linear layer whose output for x is the model's, wherever in the model it stands.

    Runs the model once, in eval mode. A dropout layer behind it changes what it gives in training, though not here:
    then it is not the model's output.
    """
    names: dict[nn.Module, str] = {module: name for name, module in model.named_modules()}
    outputs: list[tuple[nn.Module, Tensor]] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 2:
            outputs.append((module, output.clone()))  # what follows may work in place

    def drop(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and getattr(module, "p", 0) > 0:
            outputs[:] = [(linear, output) for linear, output in outputs if not _same(output, inputs[0])]

    handles = [module.register_forward_hook(keep) for module in names if isinstance(module, nn.Linear)]
    handles += [module.register_forward_pre_hook(drop) for module in names if isinstance(module, DROPOUTS)]
    try:
        with mode(model, False), torch.no_grad():
            given = logits(model(prepare(x)), len(x))
    finally:
        for handle in handles:
            handle.remove()
    for module, output in reversed(outputs):
        if _is_linear(module) and _same(output, given):
            return names[module]
    raise SpecError(
        f"no linear layer gives the model's output, so none can grow with new classes: {_listed(model, 'name it with')}"
    )


def features(
    model: nn.Module, x: Tensor, prepare: Callable[[Tensor], Tensor] = lambda x: x, head: str | None = None
) -> Tensor:
    """What the head is fed with for each of x, in eval mode, without gradients. The head is the layer of that name, or
    else the last linear one.
    """
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        found.append(inputs[0].float().flatten(1))

    handle = find_head(model, head).register_forward_pre_hook(keep)
    try:
        with mode(model, False), torch.no_grad():
            for part in in_parts(x):
                model(prepare(part))
    finally:
        handle.remove()
    return torch.cat(found)


class Body:
    """A network up to its head. It has the network's own modules, so it learns with it; those on the way to the head
    are shallow copies, with a gap where the head is.
    """

    def __init__(self, model: nn.Module, head: str | None) -> None:
        self.head = find_head(model, head)
        names = [name for name, module in model.named_modules(remove_duplicate=False) if module is self.head]
        self._copies: dict[str, nn.Module] = {}
        for name in names:  # it may have a second name
            holder, _, last = name.rpartition(".")
            if name:
                self._copy(model, holder)._modules[last] = nn.Identity()
        self._whole = self._copies.get("", nn.Identity())

    def of(self, model: nn.Module) -> nn.Module:
        """The body of this network, in the mode that it is in."""
        for name, module in self._copies.items():
            module.training = model.get_submodule(name).training
        return self._whole

    def _copy(self, model: nn.Module, name: str) -> nn.Module:
        if name not in self._copies:
            ours = self._copies[name] = copy.copy(model.get_submodule(name))
            ours._modules = dict(ours._modules)
            if name:
                holder, _, last = name.rpartition(".")
                self._copy(model, holder)._modules[last] = ours
        return self._copies[name]


def in_two(body: nn.Module, head: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """What a network in two parts answers to x, and what its head is fed with."""
    fed: Tensor = body(x)
    return head(fed), fed


def grow(head: nn.Linear, outputs: int, seed_of: Callable[[int], int]) -> None:
    """Gives the layer this many outputs, in place. Those it has stay as they are, bit for bit.

    Output i begins at random by `seed_of(i)` alone, so it does not matter in how many goes a layer grows. The
    parameters are new ones, of which an optimizer has yet to hear: autograd may still know the old ones by their shape.
    """
    if outputs < head.out_features:
        raise SpecError(f"a head of {head.out_features} outputs cannot shrink to {outputs}: ask for as many or more")
    _redraw(head, head.out_features, outputs, seed_of)


def resized(head: nn.Linear, outputs: int, seed_of: Callable[[int], int]) -> None:
    """Gives the layer this many outputs, in place, all begun anew: for a head of somebody else's classes."""
    if outputs < 1:
        raise SpecError(f"a head of {outputs} outputs gives nothing: ask for 1 or more")
    _redraw(head, 0, outputs, seed_of)


def _redraw(head: nn.Linear, kept: int, outputs: int, seed_of: Callable[[int], int]) -> None:
    """The first rows kept, the others drawn as `nn.Linear` draws them."""
    if is_parametrized(head) or not _is_linear(head) or not _owns(head, "weight"):
        raise SpecError(
            f"the head {type(head).__name__} computes its weight from something else, so it cannot grow: use a plain"
            " nn.Linear"
        )
    rows = [_row(head.in_features, seed_of(number)) for number in range(kept, outputs)]
    drawn = torch.stack(rows) if rows else torch.empty(0, head.in_features + 1)
    head.weight = _extended(head.weight, kept, drawn[:, :-1])
    if head.bias is not None:
        head.bias = _extended(head.bias, kept, drawn[:, -1])
    head.out_features = outputs


def _row(inputs: int, seed: int) -> Tensor:
    """The weights of one output, and its bias."""
    generator = torch.Generator().manual_seed(seed)
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    return torch.empty(inputs + 1, dtype=torch.float32).uniform_(-bound, bound, generator=generator)


def _extended(parameter: Tensor, kept: int, drawn: Tensor) -> nn.Parameter:
    rows = torch.cat([parameter.detach()[:kept], drawn.to(parameter.device, parameter.dtype)]).contiguous()
    return nn.Parameter(rows, requires_grad=parameter.requires_grad)


def without_head(model: nn.Module, head: str) -> nn.Module:
    """A copy of the model that gives the features its head would be fed with."""
    named_head(model, head)
    if not head:
        return Features()
    ours = copied(model)
    layer = named_head(ours, head)
    for name, module in list(ours.named_modules(remove_duplicate=False)):
        if module is layer:  # it may have a second name
            holder, _, last = name.rpartition(".")
            setattr(ours.get_submodule(holder), last, Features())
    return ours


class NearestMean(nn.Module):
    """A network that answers with the class whose mean feature is nearest. `means` are of length 1, a row for each
    class; a class that is `empty` is never the answer.
    """

    means: Tensor
    empty: Tensor

    def __init__(self, model: nn.Module, head: str | None, means: Tensor, empty: Tensor) -> None:
        super().__init__()
        if head is None:
            last = find_head(model)
            head = next(name for name, module in model.named_modules() if module is last)
        self.backbone = without_head(model, head)
        self.register_buffer("means", means)
        self.register_buffer("empty", empty)

    def forward(self, x: Tensor) -> Tensor:
        found = nn.functional.normalize(self.backbone(x).float(), dim=1)
        # Of two vectors of length 1 the squared distance is 2 - 2 cos.
        distance = (2 - 2 * found @ self.means.T).clamp(min=0).sqrt()
        return (-distance).masked_fill(self.empty, -torch.inf)


def copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SpecError(f"the model cannot be copied: {reason}") from None


def _owns(module: nn.Module, name: str) -> bool:
    """Whether it is a parameter of the module. The older norms put a computed tensor in the place of one."""
    return isinstance(dict(module.named_parameters(recurse=False)).get(name), nn.Parameter)


def _is_linear(module: nn.Module) -> bool:
    """A quantised one that derives from nn.Linear may hold its weight in another form."""
    if not isinstance(module, nn.Linear) or not isinstance(weight := getattr(module, "weight", None), Tensor):
        return False
    return not is_lazy(weight) and weight.shape == (module.out_features, module.in_features)


def _same(one: Tensor, other: Any) -> bool:
    return (
        isinstance(other, Tensor)
        and one.shape == other.shape
        and torch.allclose(one.to(other.dtype), other, rtol=0, atol=0, equal_nan=True)
    )


def _listed(model: nn.Module, how: str = "use") -> str:
    names = [name for name, module in model.named_modules() if _is_linear(module)]
    if not names:
        return "it has no linear layer: give it an nn.Linear at its end"
    return f"{how} head='...' (its linear layers are {', '.join(names)})"
