"""Three instalments of Fashion-MNIST as folders of PNG files, learned one after another, against all at once.

    python -m benchmarks.fashion --lay-out fashion     # fashion/week1, week2, week3 and test, a directory per class
    python -m benchmarks.fashion --seeds 3             # accuracy of three instalments and of joint on the same data
    python -m benchmarks.fashion --methods tfcsr-distill --exam-shares 0,0.1    # what recall says beside it
    python -m benchmarks.fashion --methods tfcsr-distill,tfcsr-distill:new_classes=balanced    # with an option

The four IDX files are those of Debian's package dataset-fashion-mnist, or lie in the folder given with --data.
"""

import argparse
import gzip
import itertools
import json
import platform
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import refuse

if TYPE_CHECKING:
    from tfcsr import Learner

DEBIAN = "/usr/share/datasets/fashion-mnist"
NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")
# Which classes arrive when; pullovers come again.
WEEKS = ((0, 1, 2, 3), (4, 5, 6, 2), (7, 8, 9))
EPOCHS = 5
CAPACITY = 2000


def read(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    def raw(kind: str, skip: int) -> np.ndarray:
        path = folder / f"{part}-{kind}-ubyte.gz"
        return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=skip)

    return raw("images-idx3", 16).reshape(-1, 28, 28), raw("labels-idx1", 8)


def parts(data: Path) -> dict[str, list[tuple[int, np.ndarray]]]:
    """The images of each class in each part: a class that comes twice is halved."""
    x, y = read(data, "train")
    found: dict[str, list[tuple[int, np.ndarray]]] = {}
    times = [sum(label in week for week in WEEKS) for label in range(10)]
    came = [0] * 10
    for number, week in enumerate(WEEKS, start=1):
        found[f"week{number}"] = []
        for label in week:
            found[f"week{number}"].append((label, x[y == label][came[label] :: times[label]]))
            came[label] += 1
    test_x, test_y = read(data, "t10k")
    return found | {"test": [(label, test_x[test_y == label]) for label in range(10)]}


def lay_out(data: Path, out: Path, most: int = 0) -> None:
    """Each part as a folder with a directory per class."""
    from PIL import Image

    def write(job: tuple[Path, np.ndarray]) -> None:
        Image.fromarray(job[1]).save(job[0])

    for part, classes in parts(data).items():
        for label, images in classes:
            place = out / part / NAMES[label]
            place.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor() as pool:
                list(pool.map(write, ((place / f"{i:05}.png", x) for i, x in enumerate(images[: most or None]))))


def learner_of(method: str, seed: int, epochs: int, device: str, exam_share: float) -> "Learner":
    """A learner that has learned nothing. The method may have an option: `name:option=value`."""
    from tfcsr import METHODS, Learner

    name, given, option = method.partition(":")
    fields: dict[str, Any] = {"model": "cnn", "method": name, "seed": seed, "epochs": epochs, "device": device}
    if any(option.name == "buffer_capacity" for option in METHODS.options(name)):
        fields |= {"buffer_capacity": CAPACITY, "exam_share": exam_share}
    if given:
        field, _, value = option.partition("=")
        fields[field] = value
    return Learner(**fields)


def accuracy(folder: Path, method: str, seed: int, epochs: int, device: str, exam_share: float) -> dict[str, Any]:
    """What is known of all classes after the three instalments, on test images; and what the learner recalls, from its
    memory alone.
    """
    learner = learner_of(method, seed, epochs, device, exam_share)
    has_memory = learner.spec.get("buffer_capacity") is not None
    seconds = sum(learner.learn(folder / f"week{week}").seconds for week in range(1, len(WEEKS) + 1))
    found = learner.evaluate(folder / "test")
    recalled = learner.recall() if has_memory else None
    return {
        "method": method,
        "exam_share": exam_share if has_memory else 0.0,
        "seed": seed,
        "accuracy": round(found.accuracy, 2),
        "per_class": {label: round(value, 1) for label, value in found.per_class.items()},
        "recall": None if recalled is None else round(recalled.overall, 2),
        "recall_per_class": {} if recalled is None else {k: round(v, 1) for k, v in recalled.per_class.items()},
        "asked": 0 if recalled is None else recalled.asked,
        "seconds": round(seconds, 1),
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from tfcsr.experiments.statistics import estimate

    found = []
    for method, share in dict.fromkeys((row["method"], row["exam_share"]) for row in rows):
        own = [row for row in rows if (row["method"], row["exam_share"]) == (method, share)]
        entry = {"method": method, "exam_share": share} | asdict(estimate([row["accuracy"] for row in own]))
        above = [row["recall"] - row["accuracy"] for row in own if row["recall"] is not None]
        found.append(
            entry
            | ({"recall - accuracy": asdict(estimate(above))} if above else {})
            | {"correlation of the classes": [_correlation(row["recall_per_class"], row["per_class"]) for row in own]}
        )
    return found


def _correlation(recall: dict[str, float], accuracy: dict[str, float]) -> float | None:
    """Between what is recalled of a class and its accuracy; None where one of them does not vary."""
    known = [label for label in accuracy if label in recall]
    pairs = [[values[label] for label in known] for values in (recall, accuracy)]
    if min(len(set(values)) for values in pairs) < 2:
        return None
    return round(statistics.correlation(*pairs), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(DEBIAN))
    parser.add_argument("--lay-out", type=Path)
    parser.add_argument("--most", type=int, default=0, help="at most that many images of a class in each part")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--methods", default="tfcsr,er-ace,derpp,icarl,tfcsr-distill,finetune,joint")
    parser.add_argument("--exam-shares", default="0", help="of the memory, one or several: 0,0.1")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fashion.json"))
    options = parser.parse_args()
    try:
        shares = [float(share) for share in options.exam_shares.split(",")]
    except ValueError:
        refuse(f"--exam-shares {options.exam_shares}: give numbers from 0 to 0.9, as in 0,0.1")
    if not all(0 <= share <= 0.9 for share in shares):
        refuse(f"--exam-shares {options.exam_shares}: each must be from 0 to 0.9")
    from tfcsr import TfcsrError

    methods = options.methods.split(",")
    try:
        for method in methods:
            learner_of(method, 0, options.epochs, options.device, 0.0)
    except TfcsrError as error:
        refuse(f"--methods {options.methods}: {error}")
    if not (options.data / "train-images-idx3-ubyte.gz").is_file():
        refuse(f"--data {options.data}: no Fashion-MNIST there; install dataset-fashion-mnist, or name its folder")
    if options.lay_out is not None:
        lay_out(options.data, options.lay_out, options.most)
        return
    with tempfile.TemporaryDirectory() as folder:
        lay_out(options.data, Path(folder), options.most)
        rows = []
        for seed in range(options.seeds):
            for method, share in itertools.product(methods, shares):
                rows.append(accuracy(Path(folder), method, seed, options.epochs, options.device, share))
                print(json.dumps(rows[-1]), flush=True)
    import torch

    result = {
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "epochs": options.epochs,
        "most": options.most,
        "buffer_capacity": CAPACITY,
        "summary": summary(rows),
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["summary"], indent=1))


if __name__ == "__main__":
    main()
