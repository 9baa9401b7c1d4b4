"""The Python of README and docs runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(4))
def test_python_block(number, tmp_path):
    assert len(BLOCKS) == 4
    words = [sys.executable, "-c", BLOCKS[number]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_extending():
    """Its blocks, one after the other, and what they promise."""
    text = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    use = """
print(tfcsr.recall.probe.probe is probe and recall.overall > 50, task)
from tfcsr import RunSpec, run, testing
fields = dict(benchmark="striped", method="anchored", model="mlp", hidden=8, epochs=1, threads=1, device="cpu")
print(run(RunSpec(**fields, strength=0.5)).spec["strength"])
run(RunSpec(benchmark="striped", model="mlp", policy="newest", schedule="never", epochs=2, threads=1, device="cpu"))
testing.check_method("anchored"), testing.check_policy("newest"), testing.check_schedule("never")
testing.check_model("mlp"), testing.check_benchmark("striped")
"""
    code = "\n".join([*blocks, use])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True 1\n0.5\n")
