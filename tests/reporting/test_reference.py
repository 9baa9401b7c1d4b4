"""The reference page is what the code says."""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_the_page_is_up_to_date(tmp_path):
    """In a process of its own: other tests register parts of their own."""
    made = tmp_path / "reference.md"
    subprocess.run([sys.executable, "-m", "tfcsr.reporting.reference", str(made)], check=True)
    assert made.read_text() == PAGE.read_text(), "run python -m tfcsr.reporting.reference docs/reference.md"


def test_it_names_every_field_option_and_function():
    text = PAGE.read_text()
    for name in (
        "lr_schedule",
        "exam_share",
        "retention_target",
        "distill_weight",
        "tfcsr.compare(",
        "RunSpec.replace(",
    ):
        assert name in text
    assert "Learner.learn(" in text
    assert "None |" not in text
