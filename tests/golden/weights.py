"""The weights that the methods of the paper end with on the embedded digits, to the last bit.

    python -m tests.golden.weights            whole runs, two seeds: four minutes
    python -m tests.golden.weights --short    two epochs a task, one seed: for every test run

Both use the plainest instructions of x86-64, so that processors of that family agree. Where one does not, the canary, a
few steps of torch without any of our code, says so.
"""

import hashlib
import json
import os
import sys

PLAIN = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
METHODS = ("er", "ewc", "finetune", "joint", "mgp", "si", "tfcsr", "tfcsr-spaced")


def canary() -> str:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 10)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for _ in range(20):
        optimizer.zero_grad()
        x, y = torch.randn(64, 1, 8, 8, generator=generator), torch.randint(10, (64,), generator=generator)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    parts = [p.detach().numpy().tobytes() for p in model.parameters()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main() -> None:
    if any(os.environ.get(name) != value for name, value in PLAIN.items()):
        os.execve(sys.executable, [sys.executable, "-m", "tests.golden.weights", *sys.argv[1:]], os.environ | PLAIN)
    import torch

    import tfcsr

    torch.set_num_threads(1)
    short = "--short" in sys.argv

    def weights(method: str, protocol: str, seed: int) -> str:
        fields = {"benchmark": "split-digits", "device": "cpu", "threads": 1}
        fields |= {"method": method, "protocol": protocol, "seed": seed}
        if short:
            fields |= {"max_epochs": 2} if method == "mgp" else {"epochs": 2}
        return tfcsr.run(tfcsr.RunSpec(**fields)).weights_sha256

    seeds = (0,) if short else (0, 1)
    cases = [(m, p, s) for m in METHODS for p in ("default", "paper") for s in seeds]
    if short:  # the paper's protocol is nothing to these
        cases = [case for case in cases if case[:2] not in {(m, "paper") for m in ("finetune", "joint")}]
    found = {f"{m}, protocol {p}, seed {s}": weights(m, p, s) for m, p, s in cases}
    print(json.dumps({"torch": torch.__version__.partition("+")[0], "canary": canary(), "weights": found}, indent=1))


if __name__ == "__main__":
    main()
