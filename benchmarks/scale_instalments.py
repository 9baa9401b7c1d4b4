"""A learner that is saved after each of so many instalments: a part of `benchmarks.scale`, a process of its own.

python -m benchmarks.scale_instalments 100     # leaves the folder `kept`, and `kept.json` with the times
                                                   # that the processor took for the last of them
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from tfcsr import Learner

EACH, CLASSES = 20, 2  # examples of each of the classes that every instalment brings


def main(instalments: int) -> None:
    learner = Learner("mlp", "tfcsr", hidden=64, epochs=1, threads=1, device="cpu", buffer_capacity=1000)
    draw, learns, saves = np.random.default_rng(0), list[float](), list[float]()
    for number in range(instalments):
        y = np.repeat(np.arange(CLASSES) + CLASSES * number, EACH)
        x = draw.integers(0, 256, (len(y), 1, 4, 4), dtype=np.uint8)
        started = time.process_time()
        learner.learn(x, y, progress=False)
        learns.append(time.process_time() - started)
        started = time.process_time()
        learner.save("kept")
        saves.append(time.process_time() - started)
    last = max(3, instalments // 10)
    found = {"learn ms": round(1000 * median(learns[-last:]), 1), "save ms": round(1000 * median(saves[-last:]), 1)}
    Path("kept.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
