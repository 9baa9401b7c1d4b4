"""What a grid takes on one Ray node, beside the same grid on the local engine: `python -m benchmarks.engines`

The start of Ray, and of what it imports, is measured apart. Runs, folders and results are the same in both.
"""

import functools
import tempfile
from pathlib import Path

import tfcsr
from benchmarks.measure import Row, arguments, interleaved, ratio, refuse, seconds, show, summary
from tfcsr.engines import Engine, engine_of
from tfcsr.errors import TfcsrError

METHODS = ["finetune", "er", "tfcsr", "ewc"]


def grid(engine: Engine, seeds: int, epochs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = tfcsr.compare(
            methods=METHODS, seeds=seeds, epochs=epochs, device="cpu", engine=engine, out=Path(folder) / "grid"
        )
    assert not found.errors, found.errors


def connect(engine: Engine) -> None:
    engine.prepare([tfcsr.RunSpec(device="cpu", threads=1)])


def measured(repetitions: int, seeds: int, epochs: int) -> list[Row]:
    with engine_of("local") as local, engine_of("ray") as ray:
        start = seconds(functools.partial(connect, ray))
        subjects = {"local": local, "ray": ray}
        work = {name: functools.partial(grid, engine, seeds, epochs) for name, engine in subjects.items()}
        for one in work.values() if repetitions > 1 else ():  # files that are read from disk for the first time
            one()
        found = interleaved({name: functools.partial(seconds, one) for name, one in work.items()}, repetitions)
    runs = len(METHODS) * seeds
    return [
        {"what": f"local: s for {runs} runs", **summary(found["local"])},
        {"what": f"one Ray node: s for {runs} runs", **summary(found["ray"])},
        {"what": "one Ray node / local", **ratio(found["ray"], found["local"])},
        {"what": "the start of Ray, s", **summary([start])},
    ]


def main() -> None:
    options = arguments(__doc__, repetitions=3, seeds=3, epochs=10)
    try:
        rows = measured(options.repetitions, options.seeds, options.epochs)
    except TfcsrError as error:
        refuse(str(error))
    show("A grid on split-digits by engine", rows, options.json)


if __name__ == "__main__":
    main()
