"""Where runs are executed: in this process, in processes of this machine, on its GPUs, or on a Ray cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from tfcsr.errors import SpecError

if TYPE_CHECKING:
    from tfcsr.experiments.origin import Origins
    from tfcsr.experiments.stop import Stop
    from tfcsr.spec import RunSpec

NAMES = ("local", "ray")

# A callback: it gets a run's spec, and an event of the run, its result, or the error that ended it.
Watcher = Callable[["RunSpec", Any], None]


class Engine(ABC):
    """Used in a `with`, or in one within another: at the end of the outermost, what it has started is ended. `workers`
    is how many runs go on at once; 0: what fits.
    """

    def __init__(self, workers: int = 0) -> None:
        require_workers(workers)
        self.workers = workers
        self._entered = 0

    def __enter__(self) -> Self:
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self.close()

    @abstractmethod
    def close(self) -> None:
        """End what it has started. It may be used again."""

    @abstractmethod
    def fitted(self, spec: "RunSpec", threads: int = 0) -> "RunSpec":
        """The spec with device, precision and threads decided; refuses what the engine does not have."""

    @abstractmethod
    def prepare(self, specs: "list[RunSpec]") -> int:
        """Make ready for these runs, one or more. How many go on at once; 0 where GPU memory decides."""

    @abstractmethod
    def run(self, specs: "list[RunSpec]", watcher: Watcher, stop: "Stop", origins: "Origins") -> None:
        """Try each of them once, and tell how it ended: with a result or an error, a BusyError where another process
        has it in hand. Raises `Interrupted` where `stop` ends it.
        """


def engine_of(engine: str | Engine, workers: int = 0, address: str | None = None) -> Engine:
    """The engine of this name. One that is made already is taken as it is."""
    if isinstance(engine, Engine):
        return engine
    if engine not in NAMES:
        raise SpecError(f"unknown engine {engine!r}: use one of {', '.join(NAMES)}")
    if engine == "local":
        if address is not None:
            raise SpecError(f"address {address}: only engine ray has one; add --engine ray")
        from tfcsr.engines.local import Local

        return Local(workers)
    from tfcsr.engines.ray import Ray

    return Ray(workers, address)


def require_workers(workers: int) -> None:
    if workers < 0:
        raise SpecError(f"workers {workers} is below 0: give how many runs go on at once, or 0 for what fits")


def alike(specs: "Iterable[RunSpec]") -> "list[list[RunSpec]]":
    """Groups of specs that can run side by side: torch's switches belong to a process, so they must be the same."""
    from tfcsr.experiments.machine import switches

    groups: dict[Any, list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault(switches(spec), []).append(spec)
    return list(groups.values())


def needed_plugins(specs: "Iterable[RunSpec]") -> tuple[list[str], str]:
    """What a fresh process has to import to know all the names; and why it could not, where it could not."""
    from tfcsr.experiments.origin import parts
    from tfcsr.plugins import source_of

    homes = {(registry, name, registry.home(name)) for spec in specs for registry, name in parts(spec)}
    needed = set()
    for registry, name, home in sorted(homes, key=lambda entry: entry[1:]):
        if home.startswith(f"{registry.package}."):
            continue
        source = source_of(home)
        if source is None:
            return [], (
                f"{registry.kind} {name!r} is defined in {home}, which worker processes cannot import; move it to a"
                " file of its own and import that"
            )
        needed.add(source)
    return sorted(needed), ""
