"""Three instalments of Fashion-MNIST as folders of PNG files, learned one after another, against all at once.

    python -m benchmarks.fashion --lay-out fashion     # fashion/week1, week2, week3 and test, a directory per class
    python -m benchmarks.fashion --seeds 3             # accuracy of three instalments and of joint on the same data

The four IDX files are those of Debian's package dataset-fashion-mnist, or lie in the folder given with --data.
"""

import argparse
import gzip
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

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


def accuracy(folder: Path, method: str, seed: int, together: bool, epochs: int) -> dict[str, object]:
    from tfcsr import Learner

    learner = (
        Learner(model="cnn", method=method, buffer_capacity=CAPACITY, seed=seed, epochs=epochs)
        if (method != "joint")
        else Learner(model="cnn", method=method, seed=seed, epochs=epochs)
    )
    for week in range(1, len(WEEKS) + 1):
        learner.learn(folder / f"week{week}")
    found = learner.evaluate(folder / "test")
    return {"method": method, "seed": seed, "accuracy": found.accuracy, "per_class": dict(found.per_class)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(DEBIAN))
    parser.add_argument("--lay-out", type=Path)
    parser.add_argument("--most", type=int, default=0, help="at most that many images of a class in each part")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--methods", default="tfcsr,er-ace,derpp,finetune,joint")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fashion.json"))
    options = parser.parse_args()
    if options.lay_out is not None:
        lay_out(options.data, options.lay_out, options.most)
        return
    with tempfile.TemporaryDirectory() as folder:
        lay_out(options.data, Path(folder), options.most)
        rows = []
        for seed in range(options.seeds):
            for method in options.methods.split(","):
                rows.append(accuracy(Path(folder), method, seed, False, options.epochs))
                print(json.dumps(rows[-1]), flush=True)
    options.out.write_text(json.dumps({"epochs": options.epochs, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
