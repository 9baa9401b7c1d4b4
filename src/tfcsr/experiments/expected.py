"""How long runs should take, said before they are begun."""

import time
from collections.abc import Sequence
from statistics import median

from tfcsr.data.benchmarks import BENCHMARKS
from tfcsr.experiments.origin import load
from tfcsr.experiments.study import Study
from tfcsr.spec import RunSpec

# Examples, and seconds a step takes on an H200 with several runs beside each other (docs/speed.md).
MNIST, CIFAR = "split-mnist", "split-cifar100"
EXAMPLES = {MNIST: 60_000, CIFAR: 50_000}
GPU_SECONDS = {"resnet18": 0.0013}
OTHER_GPU_SECONDS = 0.0004


def expected_steps(spec: RunSpec) -> int:
    """How many steps a run takes; mastery-gated, at most."""
    examples = EXAMPLES.get(spec.benchmark) or len(load(spec).train_y)
    epochs: int = spec.get("max_epochs", spec.epochs)
    return epochs * spec.tasks * -(-examples // (spec.tasks * spec.batch_size))


def expected_seconds(study: Study, specs: Sequence[RunSpec], device: str, workers: int) -> tuple[float, str]:
    """How long these runs should take together on this machine, and by what that is judged."""
    from tfcsr.experiments.compare import require_workers
    from tfcsr.experiments.machine import cores, on_this_machine
    from tfcsr.experiments.together import MOST_AT_ONCE

    require_workers(workers)
    here = [on_this_machine(spec.replace(device=device), threads=1) for spec in specs]
    on_cpu = all(spec.device == "cpu" for spec in here)
    at_once = min(len(here), workers or (cores() if on_cpu else MOST_AT_ONCE))
    total, sources = 0.0, set()
    rates: dict[str, float] = {}
    for spec in here:
        if spec.model not in rates:
            like = [r for r in study.records.runs if (r.spec["model"], r.spec["device"]) == (spec.model, spec.device)]
            if like:
                rates[spec.model] = median(r.seconds / r.optimizer_steps for r in like) / at_once
                sources.add("finished runs")
            elif on_cpu:
                rates[spec.model] = seconds_a_step(spec) / at_once
                sources.add("a few steps here")
            else:
                rates[spec.model] = GPU_SECONDS.get(spec.model, OTHER_GPU_SECONDS)
                sources.add("an H200")
        total += expected_steps(spec) * rates[spec.model]
    return total, " and ".join(sorted(sources))


def seconds_a_step(spec: RunSpec) -> float:
    """Measured on this CPU with random images."""
    import torch

    from tfcsr.experiments.machine import settings
    from tfcsr.training.loop import build_model

    shape = (3, 32, 32) if spec.benchmark == CIFAR else (1, 28, 28) if spec.benchmark == MNIST else None
    if shape is None:
        shape = load(spec).train_x.shape[1:]
    with settings(spec):
        model = build_model(spec, shape, BENCHMARKS.get(spec.benchmark).classes)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        x = torch.rand(spec.batch_size, *shape).contiguous(memory_format=torch.channels_last)
        times = []
        for _ in range(4):
            started = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.int64)).backward()
            optimizer.step()
            times.append(time.perf_counter() - started)
        return min(times)
