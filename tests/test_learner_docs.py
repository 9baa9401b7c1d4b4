"""docs/learner.md runs as it stands: its Python in one process, its commands one after another."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "learner.md").read_text(encoding="utf-8")


def commands(text):
    """The indented lines that begin with tfcsr, without their comments."""
    return [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("    tfcsr ")]


def draw(folder, names, count=14):
    """A directory per class, of images with a bright row of its own."""
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 120, (12, 12), np.uint8)
            pixels[sum(map(ord, name)) % 12] += 120
            Image.fromarray(pixels).save(folder / name / f"{number:02}.png")


@pytest.fixture
def place(tmp_path, monkeypatch):
    draw(tmp_path / "week1", ("ant", "bee"))
    draw(tmp_path / "week2", ("cat", "bee"))
    draw(tmp_path / "week3", ("auk",))
    draw(tmp_path / "all", ("ant", "bee", "cat"))
    draw(tmp_path / "new", ("ant",), 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python(place):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 9
    code = "\n".join(["import torch", "torch.set_num_threads(1)", *blocks])
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "['low', 'high', 'middle']" in done.stdout


def test_commands(place, capsys):
    from tfcsr.cli import main

    lines = commands(PAGE)
    assert len(lines) == 7
    for line in lines:
        main(shlex.split(line)[1:])
    said = capsys.readouterr()
    assert said.err == ""
    assert "learned 28 examples of 2 new classes" in said.out
    assert "learned 28 examples of 1 new class, 1 known" in said.out
    assert sum(line.startswith("new/ant/") for line in said.out.splitlines()) == 6
    assert (place / "model" / "report.html").exists()
    assert (place / "run" / "model.safetensors").exists()
