"""The figures by which README and docs tell of our own claims stand on the page of all runs."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"[+−-]?\d+\.\d+ ± \d+\.\d+")
# Of `make demo`.
ELSEWHERE = {"README.md": ("96.51 ± 1.54", "94.48 ± 1.65")}


def figures(text: str) -> set[str]:
    """Without their signs: a loss is told as such in words."""
    return {found.lstrip("+−-") for found in FIGURE.findall(text)}


def ingredients() -> set[str]:
    """Of `tfcsr compare` with the ingredients of others, as it was kept."""
    kept = json.loads((ROOT / "benchmarks/results/ingredients.json").read_text(encoding="utf-8"))
    values = [row[kind] for row in kept["methods"] for kind in ("final_accuracy", "difference") if row[kind]]
    return {f"{abs(value['mean']):.2f} ± {(value['high'] - value['low']) / 2:.2f}" for value in values}


def claims(page: str) -> list[str]:
    """The paragraphs, rows and items that tell of `tfcsr reproduce beyond`; others name the command they come from."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "README.md":
        text = text.partition("## Beyond the paper")[2].partition("\n## ")[0]
    parts = (re.sub(r"\s+", " ", part) for part in re.split(r"\n\n|\n(?=[|-])", text))
    return [part for part in parts if "`tfcsr compare" not in part]


@pytest.mark.parametrize("page", ["README.md", "docs/spaced-recall.md"])
def test_figures_are_those_of_the_runs(page):
    known = figures((ROOT / "docs/beyond/beyond.md").read_text(encoding="utf-8"))
    known |= {*ELSEWHERE.get(page, ()), *ingredients()}
    told = [(figure, part) for part in claims(page) for figure in figures(part)]
    assert len(told) > 20
    assert [f"{figure} in: {part.strip()[:80]}" for figure, part in told if figure not in known] == []
