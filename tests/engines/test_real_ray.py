"""The engine on Ray itself: two nodes on this machine, one of which is lost. `tests/nightly/cluster.py` does more."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import tfcsr
from tests.engines.conftest import same_files
from tests.experiments.conftest import flags, wait_for

SOURCE = str(Path(tfcsr.__file__).parents[1])
GRID = {"max_per_class": 40, "epochs": 12, "batch_size": 8, "checkpoint_every": 1, "device": "cpu"}


@pytest.fixture
def nodes(monkeypatch):
    """The head of a cluster, and a node beside it, with a CPU each."""
    monkeypatch.setenv("PYTHONPATH", SOURCE)  # they get the environment of this process
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's workers are as nice as can be: beside other tests they would hardly run.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        utils = pytest.importorskip("ray.cluster_utils")
        cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            yield cluster, cluster.add_node(num_cpus=1, include_dashboard=False)
        finally:
            cluster.shutdown()


def test_a_grid_whose_node_is_lost_ends_as_it_does_here(nodes, tmp_path):
    cluster, node = nodes
    grid, told = tmp_path / "grid", tmp_path / "told"
    command = [sys.executable, "-m", "tfcsr", "compare", "--methods", "er,tfcsr", "--seeds", "2", *flags(**GRID)]
    with told.open("wb") as file:
        driver = subprocess.Popen(
            [*command, "--engine", "ray", "--address", cluster.address, "--out", str(grid)],
            stdout=file,
            stderr=file,
            env=os.environ | {"PYTHONPATH": SOURCE},
        )
        try:
            # Both nodes are at work then, and both have sent something home.
            wait_for(lambda: len(list(grid.glob("*/checkpoint"))) > 1 or driver.poll() is not None, 120)
            cluster.remove_node(node, allow_graceful=False)
            assert driver.wait(180) == 0, told.read_text()
        finally:
            driver.kill()
    assert "was lost; it goes on elsewhere" in told.read_text()
    assert "Traceback" not in told.read_text()
    subprocess.run([*command, "--out", str(tmp_path / "here")], check=True, capture_output=True)
    runs = sorted(path.parent.name for path in (tmp_path / "here").glob("*/result.json"))
    assert len(runs) == 4
    for run in runs:
        same_files(grid / run, tmp_path / "here" / run)
