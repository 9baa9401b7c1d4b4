"""The three scenarios on the embedded digits: `python -m tests.golden.scenarios > tests/golden/scenarios.json`."""

import json
from statistics import fmean, stdev
from typing import Any

import tfcsr

SEEDS = 5
COMMON: dict[str, Any] = {"model": "mlp", "hidden": "100", "steps": 100, "device": "cpu", "threads": 1}
# As in the study of the scenarios, on smaller data: weights that let EWC and SI work.
METHODS: dict[str, dict[str, Any]] = {
    "finetune": {},
    "ewc": {"fisher": "exact", "ewc_lambda": 1e3},
    "si": {"si_lowest": "none", "si_highest": 0.0, "si_damping": 0.1, "si_lambda": 100.0},
    "lwf": {},
    "er": {},
    "joint": {},
}


def accuracy(scenario: str, method: str, seed: int) -> float:
    """Final accuracy in percent, the mean over tasks."""
    spec = tfcsr.RunSpec(method=method, scenario=scenario, seed=seed, **COMMON, **METHODS[method])
    return fmean(tfcsr.run(spec).accuracy_matrix[-1])


def main() -> None:
    found: dict[str, dict[str, Any]] = {}
    for scenario in ("task", "domain", "class"):
        found[scenario] = {}
        for method in METHODS:
            values = [accuracy(scenario, method, seed) for seed in range(SEEDS)]
            kept = {"mean": fmean(values), "standard_deviation": stdev(values), "by_seed": values}
            found[scenario][method] = {name: _rounded(value) for name, value in kept.items()}
    print(json.dumps(found, indent=1))


def _rounded(value: Any) -> Any:
    return [round(v, 4) for v in value] if isinstance(value, list) else round(value, 4)


if __name__ == "__main__":
    main()
