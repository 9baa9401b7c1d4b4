"""How the benchmarks measure and show."""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import torch
from rich.console import Console
from rich.table import Table

import tfcsr
from tfcsr.experiments.machine import cores, processor

Row = dict[str, Any]


def interleaved(subjects: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """Each subject's measurements, taken in turns, so that a busy moment of the machine meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repetitions):
        for name, measure in subjects.items():
            found[name].append(measure())
    return found


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def summary(values: list[float]) -> Row:
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}


def ratio(slower: list[float], faster: list[float]) -> Row:
    """How many times as long the first takes: of each turn, then the median."""
    return summary([a / b for a, b in zip(slower, faster, strict=True)])


def arguments(
    description: str | None, least: Mapping[str, int] | None = None, parts: Sequence[str] = (), **defaults: int
) -> argparse.Namespace:
    """What the command line says; what could not be measured or kept is refused before anything is measured."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    if parts:
        parser.add_argument("--only", choices=parts, help="measure this alone")
    options = parser.parse_args()
    for name in defaults:
        value, bound = getattr(options, name), (least or {}).get(name, 1)
        if value < bound:
            refuse(f"--{name} {value}: must be {bound} or more")
    if options.json is not None and not options.json.parent.is_dir():
        refuse(f"--json {options.json}: there is no folder {options.json.parent}")
    return options


def refuse(message: str) -> NoReturn:
    print(f"benchmarks: {message}", file=sys.stderr)
    raise SystemExit(2)


def show(title: str, rows: list[Row], file: Path | None) -> None:
    """On the terminal, rows of one kind in one table; with a file, as JSON with the machine it was measured on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = {
        "tfcsr": tfcsr.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
        "cores": cores(),
        "gpu": gpu,
        "date": datetime.now(UTC).date().isoformat(),
    }
    console = Console(width=120)
    console.print(f"{title} ({gpu or processor()}, {cores()} cores, torch {torch.__version__}, {machine['date']})")
    for group in _kinds(rows):
        table = Table()
        columns = list(dict.fromkeys(name for row in group for name in row))
        for column in columns:
            table.add_column(column, justify="left" if column == "what" else "right")
        for row in group:
            table.add_row(*(_text(row.get(column, "")) for column in columns))
        console.print(table)
    if file is not None:
        file.write_text(
            json.dumps({"title": title, "machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )


def _kinds(rows: list[Row]) -> list[list[Row]]:
    """Rows that follow each other, as long as one has all the columns of the other."""
    groups: list[list[Row]] = []
    for row in rows:
        if groups and (row.keys() <= (last := max(groups[-1], key=len).keys()) or last <= row.keys()):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
