"""The Python of README and docs runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_python_block(number, tmp_path):
    assert len(BLOCKS) == 2
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
fields = dict(benchmark="striped", method="anchored", model="two-layers", width=8, epochs=1, threads=1, device="cpu")
print(run(RunSpec(**fields, strength=0.5)).spec["strength"])
fields |= {"method": "tfcsr", "epochs": 2}
run(RunSpec(**fields, policy="newest", schedule="never"))
testing.check_method("anchored"), testing.check_policy("newest"), testing.check_schedule("never")
testing.check_model("two-layers"), testing.check_benchmark("striped")
"""
    code = "\n".join([*blocks, use])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True 1\n0.5\n")
