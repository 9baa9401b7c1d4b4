"""Where a run's result comes from beside its spec: our version of training, others' code, and the data. A result is
reused only where all of it is the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tfcsr import fingerprint
from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.data.dataset import Dataset
from tfcsr.data.fingerprint import of_dataset
from tfcsr.methods import METHODS
from tfcsr.registry import Registry
from tfcsr.spec import RunSpec
from tfcsr.training import VERSION

Origin = dict[str, Any]

# What a folder of version 0.1.0, which knew nothing of this, is taken to say.
FIRST: Origin = {"training": 1, "method": 1}


def load(spec: RunSpec) -> Dataset:
    """The data of a run."""
    return BENCHMARKS.get(spec.benchmark).dataset(spec.data_dir, **spec.options_of(BENCHMARKS, spec.benchmark))


def parts(spec: RunSpec) -> Iterator[tuple[Registry[Any], str]]:
    """Everything that the spec chooses by name."""
    for name, option in spec.options().items():
        if isinstance(option.choices, Registry):
            yield option.choices, spec.get(name)


def origin(spec: RunSpec, data: str) -> Origin:
    """Of the run as it would be made now, on data with this fingerprint."""
    theirs = [(registry, name) for registry, name in parts(spec) if not registry.ships(name)]
    return {
        "training": VERSION,
        "method": METHODS.get(spec.method).version,
        "data": data,
        "code": {f"{r.kind} {name}": fingerprint.of_code(r.get(name), r.home(name)) for r, name in theirs},
    }


def changes(there: Any, here: Origin) -> list[str]:
    """In what a result that was found comes from something else, in words."""
    there = there if isinstance(there, dict) and there else FIRST
    said = []
    if there.get("training") != here["training"] or there.get("method") != here["method"]:
        said.append("an older version of tfcsr trained it, which gives other weights")
    code = there.get("code")
    if "code" not in there and here["code"]:
        said.append(f"it does not say which code of {_list(here['code'])} it was made with")
    elif "code" in there and code != here["code"]:
        known = code if isinstance(code, dict) else {}
        other = [name for name in here["code"] if known.get(name) != here["code"][name]] or ["others"]
        said.append(f"the code of {_list(other)} has changed since")
    if "data" in there and there["data"] != here["data"]:
        said.append("the data has changed since")
    return said


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


class Origins:
    """Of many runs: the data of a benchmark is loaded and looked at once."""

    def __init__(self) -> None:
        self._data: dict[Any, str] = {}
        self._known: dict[Any, Origin] = {}

    def __getitem__(self, spec: RunSpec) -> Origin:
        source = (spec.benchmark, spec.data_dir, *spec.options_of(BENCHMARKS, spec.benchmark).items())
        if source not in self._data:
            self._data[source] = of_dataset(load(spec))
        named = (source, *((registry.kind, name) for registry, name in parts(spec)))
        if named not in self._known:
            self._known[named] = origin(spec, self._data[source])
        return self._known[named]
