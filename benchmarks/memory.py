"""Data that does not fit: learning from a packed image folder, against the same images in memory.

    python -m benchmarks.memory                     # 200,000 images of 3x64x64, 2.4 GB, on a CPU
    python -m benchmarks.memory --device cuda       # from host memory and from the file, against all on the card

Every measurement is a process of its own, in turns. Reported: resident memory above that of the same training on 1,000
images, speed as a share of that in memory (medians), and the time from the start of a process to its first step.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

CLASSES = 20
SIDE = 64
WARM_UP = 30


def make(folder: Path, images: int) -> None:
    """A folder of PNG files, a directory per class, of blurred noise in a colour of the class."""
    for label in range(CLASSES):
        (folder / f"class{label:02}").mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(write, [(folder, start, min(images, start + 1000)) for start in range(0, images, 1000)]):
            pass


def write(job: tuple[Path, int, int]) -> None:
    """Some of them; a process of its own has not loaded the rest of this file."""
    import numpy as np
    from PIL import Image

    folder, first, last = job
    rng = np.random.default_rng(first)
    for number in range(first, last):
        label = number % CLASSES
        noise = rng.integers(0, 160, (8, 8, 3), dtype=np.uint8)
        noise[:, :, label % 3] += np.uint8(4 * label)
        place = f"{folder}/class{label:02}/{number:06}.png"
        Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(place, compress_level=1)


class EnoughError(Exception):
    """As many steps as were to be timed."""


def child(kind: str, folder: Path, steps: int, device: str, model: str) -> dict[str, float]:
    """Learn for so many steps, and say how it went."""
    import torch

    from tfcsr import Learner
    from tfcsr.data.packed import pack
    from tfcsr.learner import instalments

    times: list[float] = []

    def watch(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            if device != "cpu" and len(times) in (WARM_UP, steps - 1):
                torch.cuda.synchronize()
            times.append(time.time())
            if len(times) >= steps:
                raise EnoughError

    # Enough epochs for the steps that are timed, too few for the compiler to be worth its while on a GPU.
    learner = Learner(model=model, method="er", buffer_capacity=500, epochs=300 if kind == "few" else 2, device=device)
    data: tuple[Any, ...] = (folder,)
    if kind != "file":
        packed = pack(folder)
        x, y = packed.x.tensor, packed.y
        if kind == "few":
            x, y = x[:1000].clone(), y[:1000]
        else:
            x = x.clone()
        packed.x.release()
        data = (x, y)
    if kind == "host":
        instalments.LARGEST_SHARE_OF_DEVICE = 0.0
    with contextlib.suppress(EnoughError):
        learner.learn(*data, listeners=[watch], progress=False)
    spent = times[-1] - times[WARM_UP]
    return {
        "first_step": times[0],
        "steps_per_second": (len(times) - 1 - WARM_UP) / spent,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure(kind: str, folder: Path, steps: int, device: str, model: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", "--child", kind, "--folder", str(folder)]
    command += ["--steps", str(steps), "--device", device, "--model", model]
    started = time.time()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    found["first_step"] -= started
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where the images are, or are to be kept")
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.folder, options.steps, options.device, options.model)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        report(folder, options)


def report(folder: Path, options: argparse.Namespace) -> None:
    import torch

    from tfcsr.data.packed import pack

    if not folder.exists() or not any(folder.iterdir()):
        make(folder, options.images)
    started = time.time()
    packed = pack(folder)
    packing = time.time() - started
    print(f"packed in {packing:.1f} s", flush=True)
    kinds = ["few", "memory", "file"] if options.device == "cpu" else ["few", "memory", "host", "file"]
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(options.n):
        for kind in kinds:
            found[kind].append(measure(kind, folder, options.steps, options.device, options.model))
            print(kind, json.dumps(found[kind][-1]), flush=True)

    def middle(kind: str, name: str) -> float:
        return statistics.median(one[name] for one in found[kind])

    ratios = {
        kind: [a["steps_per_second"] / b["steps_per_second"] for a, b in zip(found[kind], found["memory"], strict=True)]
        for kind in kinds
        if kind not in ("few", "memory")
    }
    result = {
        "machine": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "gpu": torch.cuda.get_device_name() if options.device != "cpu" else None,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "n": options.n,
        "steps": options.steps,
        "model": options.model,
        "images": len(packed.y),
        "bytes": packed.x.tensor.nbytes,
        "seconds_to_pack": round(packing, 1),
        "resident_above_few_MiB": {
            kind: round((middle(kind, "resident") - middle("few", "resident")) / 2**20) for kind in kinds
        },
        "speed_share_of_memory": {kind: round(statistics.median(values), 3) for kind, values in ratios.items()},
        "speed_shares": {kind: [round(value, 3) for value in values] for kind, values in ratios.items()},
        "seconds_to_first_step": {kind: round(middle(kind, "first_step"), 2) for kind in kinds},
        "steps_per_second": {kind: round(middle(kind, "steps_per_second"), 1) for kind in kinds},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
