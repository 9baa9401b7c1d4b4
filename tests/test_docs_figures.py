"""The figures by which README and docs tell of our own claims stand on the page of all runs."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIGURE = re.compile(r"[+−-]?\d+\.\d+ ± \d+\.\d+")
CITED = re.compile(r"\[([\d, ]+)\](?!\()")
# Of `make demo`; and of commands that docs/spaced-recall.md tells, [11] and [12].
ELSEWHERE = {"README.md": ("96.51 ± 1.54", "94.48 ± 1.65", "96.17 ± 0.40", "0.63 ± 0.90")}


def figures(text: str) -> set[str]:
    """Without their signs: a loss is told as such in words."""
    return {found.lstrip("+−-") for found in FIGURE.findall(text)}


def ingredients() -> set[str]:
    """Of `tfcsr compare` with the ingredients of others, as it was kept."""
    kept = json.loads((ROOT / "benchmarks/results/ingredients.json").read_text(encoding="utf-8"))
    values = [row[kind] for row in kept["methods"] for kind in ("final_accuracy", "difference") if row[kind]]
    return {f"{abs(value['mean']):.2f} ± {(value['high'] - value['low']) / 2:.2f}" for value in values}


def text_of(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition("## Beyond the paper")[2].partition("\n## ")[0] if page == "README.md" else text


def claims(page: str) -> list[str]:
    """The sentences, rows and items that tell of `tfcsr reproduce beyond`; others cite the command they come from."""
    parts = (re.sub(r"\s+", " ", part) for part in re.split(r"\n\n|\n(?=[|-])|(?<=\.)\s", text_of(page)))
    return [part for part in parts if not CITED.search(part)]


@pytest.mark.parametrize("page", ["README.md", "docs/spaced-recall.md"])
def test_figures_are_those_of_the_runs(page):
    known = figures((ROOT / "docs/beyond/beyond.md").read_text(encoding="utf-8"))
    known |= {*ELSEWHERE.get(page, ()), *ingredients()}
    told = [(figure, part) for part in claims(page) for figure in figures(part)]
    assert len(told) > 20
    assert [f"{figure} in: {part.strip()[:80]}" for figure, part in told if figure not in known] == []


def test_every_cited_command_is_told_and_every_told_one_cited():
    text, _, commands = text_of("docs/spaced-recall.md").partition("\n## Commands\n")
    cited = {number for found in CITED.findall(text) for number in found.split(", ")}
    assert cited == set(re.findall(r"^(\d+)\. `tfcsr ", commands, re.MULTILINE))
    dated = [number for found in CITED.findall(commands) for number in found.split(", ")]
    assert sorted(dated) == sorted(cited)
