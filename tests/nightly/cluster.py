"""The Ray engine on a real cluster of three nodes on this machine:

    python -m tests.nightly.cluster

24 runs; one node is removed midway, the driver is interrupted once and killed once, and started again each time. Every
run must leave what the local engine leaves, byte for byte but for the clock and the machine. Then two runs of a
plugin's benchmark whose data only the driver can read.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tfcsr
from tests.engines.conftest import same_files

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ray.cluster_utils import Cluster

SOURCE = str(Path(tfcsr.__file__).parents[1])
GRID = ["--methods", "er,tfcsr,ewc,finetune", "--seeds", "6", "--max-per-class", "40", "--epochs", "2"]
GRID += ["--batch-size", "8", "--checkpoint-every", "1", "--device", "cpu"]
PLUGIN = """
import os
import numpy as np
from tfcsr import BENCHMARKS, Benchmark, Dataset
from tfcsr.errors import DataError

def load(data_dir):
    if "ONLY_THE_DRIVER_HAS" not in os.environ:
        raise DataError("there is no such file on this node")
    with np.load(os.environ["ONLY_THE_DRIVER_HAS"], allow_pickle=False) as file:
        x, y = file["x"], file["y"]
    return Dataset("far", x[::2], y[::2], x[1::2], y[1::2], ("a", "b", "c", "d"), 255.0, (0.5,), (0.25,))

BENCHMARKS.add("far")(Benchmark(load=load, classes=4, tasks=2, defaults={"epochs": 1}))
"""


def started(arguments: list[str], said: Path, **env: str) -> "subprocess.Popen[bytes]":
    with said.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tfcsr", "compare", *arguments],
            stdout=file,
            stderr=file,
            env=os.environ | {"PYTHONPATH": SOURCE} | env,
            start_new_session=True,
        )


def complete(folder: Path) -> int:
    return len(list(folder.glob("*/result.json")))


def wait_for(condition: Callable[[], Any], process: "subprocess.Popen[bytes]", what: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"it ended before {what}"
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def half_done(folder: Path) -> bool:
    """Whether some run has a checkpoint here and is not complete."""
    return any(not (file.parents[1] / "result.json").exists() for file in folder.glob("*/checkpoint/*.json"))


def the_grid(cluster: Any, nodes: list[Any], folder: Path) -> None:
    grid, said = folder / "grid", folder / "said"
    ray = [*GRID, "--engine", "ray", "--address", cluster.address, "--out", str(grid)]

    driver = started(ray, said)
    wait_for(lambda: complete(grid) >= 3 and half_done(grid), driver, "the first runs")
    cluster.remove_node(nodes[0], allow_graceful=False)
    print(f"a node was removed after {complete(grid)} runs", flush=True)
    wait_for(lambda: complete(grid) >= 8 and half_done(grid), driver, "more runs")
    os.killpg(driver.pid, signal.SIGINT)
    assert driver.wait(60) == 130, driver.returncode
    print(f"the driver was interrupted after {complete(grid)} runs", flush=True)
    lines = said.read_text().splitlines()
    assert lines[-1].startswith("tfcsr: "), lines[-1]
    assert any("was lost; it goes on elsewhere" in line for line in lines), lines

    driver = started(ray, said)
    wait_for(lambda: complete(grid) >= 14 and half_done(grid), driver, "more runs")
    driver.kill()
    driver.wait()
    print(f"the driver was killed after {complete(grid)} runs", flush=True)
    assert complete(grid) < 24

    driver = started(ray, said)
    assert driver.wait(300) == 0, said.read_text()
    text = said.read_text()
    for word in ("Warning", "raylet", "Traceback", " E "):
        assert word not in text, text

    local = folder / "local"
    assert started([*GRID, "--out", str(local)], folder / "said by local").wait(300) == 0
    runs = sorted(path.parent.name for path in local.glob("*/result.json"))
    assert len(runs) == 24
    for run in runs:
        same_files(grid / run, local / run)
    print("24 runs are as the local engine leaves them")


def a_plugins_data(cluster: Any, folder: Path) -> None:
    plugin, file = folder / "far.py", folder / "far.npz"
    plugin.write_text(PLUGIN)
    rng = np.random.default_rng(0)
    np.savez(file, x=rng.integers(0, 255, (200, 1, 8, 8), np.uint8), y=np.arange(200) // 2 % 4)
    grid = ["--plugin", str(plugin), "--benchmark", "far", "--methods", "er,si", "--seeds", "1", "--device", "cpu"]
    for place, more in (("far", ["--engine", "ray", "--address", cluster.address]), ("near", [])):
        said = folder / f"said of {place}"
        driver = started([*grid, *more, "--out", str(folder / place)], said, ONLY_THE_DRIVER_HAS=str(file))
        assert driver.wait(120) == 0, said.read_text()
    runs = [path.parent.name for path in (folder / "near").glob("*/result.json")]
    assert len(runs) == 2
    for run in runs:
        same_files(folder / "far" / run, folder / "near" / run)
    assert list((folder / "cache").rglob("shipped/*/dataset.json"))
    print("2 runs of a plugin, on data that was shipped, are as the local engine leaves them")


def main() -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        # The nodes are processes of this one, and get its environment.
        os.environ |= {"PYTHONPATH": SOURCE, "XDG_CACHE_HOME": f"{place}/cache", "RAY_USAGE_STATS_ENABLED": "0"}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            nodes = [cluster.add_node(num_cpus=1, include_dashboard=False) for _ in range(2)]
            the_grid(cluster, nodes, Path(place))
            a_plugins_data(cluster, Path(place))
        finally:
            cluster.shutdown()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
