"""Keeps a run: everything as JSON, the table as text, the targets as a picture."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import growth
from benchmarks.plot import svg
from benchmarks.rounds import ROOT, Outcome
from benchmarks.summary import Line
from benchmarks.table import table

FOLDER = Path(__file__).with_name("results")
VERSION = 1


def save(mode: str, lines: Sequence[Line], outcomes: Sequence[Outcome]) -> Path:
    """Write the files and return their common path, without an ending."""
    FOLDER.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = FOLDER / f"{now:%Y%m%d-%H%M%S}-{mode}"
    content = {
        "version": VERSION,
        "time": now.isoformat(timespec="seconds"),
        "mode": mode,
        "peer": _pins(),
        "machine": _machine(),
        "lines": [asdict(line) for line in lines],
        "experiments": [asdict(outcome) for outcome in outcomes],
    }
    path.with_suffix(".json").write_text(json.dumps(content, indent=1))
    path.with_suffix(".txt").write_text(table(lines) + "\n")
    path.with_suffix(".svg").write_text(svg(lines, f"{mode} run of {now:%Y-%m-%d %H:%M} UTC"))
    path.with_name(f"{path.name}-growth.svg").write_text(growth.svg(lines))
    return path


def _pins() -> list[str]:
    pins = (ROOT / "constraints" / "bench.txt").read_text().splitlines()
    return [pin for pin in pins if not pin.startswith("#")]


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
    }
