"""The report: one HTML file that opens from disk, with everything it needs in it."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from tfcsr.errors import OutputError
from tfcsr.experiments.history import HISTORY, history
from tfcsr.experiments.reading import Results
from tfcsr.files import sync_folder, write_bytes, writing
from tfcsr.garbage import uncollected
from tfcsr.reporting.learner import page as learner_page
from tfcsr.reporting.view import document

LARGEST = 6_000_000  # bytes; nearly five of them are Plotly
ROOM = 1_000_000  # of them, for the document
SCRIPTS = ("draw.js", "charts.js", "timeline.js", "page.js")  # one script, in this order


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a results folder, by default into it, and say where it is."""
    if (Path(folder) / HISTORY).exists():
        return _write(learner_page.render(history(Path(folder))), folder, out)
    results = Results(folder)
    results.look()
    if not results.runs:
        raise OutputError(f"{folder} holds no run: give the folder of a run, or of a comparison")
    with uncollected():
        text = document(results, room=ROOM)
    return _write(render(text), folder, out)


def _write(page: bytes, folder: str | Path, out: str | Path | None) -> Path:
    path = Path(out) if out is not None else Path(folder) / "report.html"
    if path.is_dir():
        raise OutputError(f"{path} is a folder: give a file as --out")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, page)
    sync_folder(path.parent)
    return path


def render(data: str, *, live: bool = False) -> bytes:
    """The page that shows a document. A live one asks its server for updates."""
    import jinja2
    from markupsafe import Markup

    source = files("tfcsr.reporting") / "page"
    css = (source / "page.css").read_text(encoding="utf-8")
    js = "".join((source / name).read_text(encoding="utf-8") for name in SCRIPTS)
    js = f'"use strict";\n(() => {{\n{js}}})();'
    plotly, plotly_hash = _plotly()
    # Only these two scripts run, and nothing is fetched: whatever slipped in with a name could neither act nor tell.
    policy = f"default-src 'none'; script-src '{plotly_hash}' '{_hash(js)}'; style-src 'unsafe-inline'; img-src data:"
    policy += "; connect-src 'self'" if live else ""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["spread"] = _spread
    page = environment.from_string((source / "page.html").read_text(encoding="utf-8"))
    shown = json.loads(data)
    text = page.render(
        policy=policy,
        live=live,
        folder=shown["folder"],
        groups=shown["groups"],
        css=Markup(css),
        js=Markup(js),
        plotly=Markup(plotly),
        data=Markup(data),
    )
    raw = text.encode(errors="replace")
    if len(raw) > LARGEST:  # only if Plotly has grown
        raise OutputError(f"the page takes {len(raw)} bytes, more than {LARGEST}: install an earlier plotly")
    return raw


def _spread(value: list[float | None] | None) -> str:
    """A mean ± half its interval, as a document holds them: mean, low, high and n."""
    if value is None:
        return "–"
    mean, _, high, _ = value
    assert mean is not None
    return f"{mean:.2f}" if high is None else f"{mean:.2f} ±{high - mean:.2f}"


@cache
def _plotly() -> tuple[str, str]:
    from plotly.offline import get_plotlyjs

    text = str(get_plotlyjs())
    return text, _hash(text)


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
