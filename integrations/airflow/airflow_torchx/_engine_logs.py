"""What `_engine` is for the rest, for the log files of a task's earlier tries, where this host has them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Context

from airflow_torchx._shown import ShownLine
from torchx_core.supervisor.reading import read_part

__all__ = ["lines_in", "shown_before"]

logger = logging.getLogger(__name__)

TRIES = 3
"""Whose logs are read: a try may die before it has saved anything, and the next one too."""
TRIGGERERS = 8
"""Of how many of each try: one that starts again, and takes a trigger up, writes into another file."""
TAIL_BYTES = 8 << 20
"""How much of each file: more than a try shows between two saves."""
OURS: Final = "airflow_torchx"
"""The logger of `_engine.emit`."""


def shown_before(context: Context) -> list[ShownLine]:
    """Return the last lines of apps that earlier tries of this task, and their triggers, showed on this host.

    Nor with remote logging: a supervisor that is killed uploads nothing, and nobody may ever see its file.
    For Airflow 3.3 and later.
    """
    from airflow.sdk.configuration import conf

    if conf.getboolean("logging", "remote_logging", fallback=False):
        return []
    ti: Any = context["ti"]  # pyright: ignore[reportTypedDictNotRequiredAccess]  # always there
    folder = Path(str(conf.get("logging", "base_log_folder")))
    template = str(conf.get("logging", "log_filename_template"))
    lines: list[ShownLine] = []
    for number in range(max(1, ti.try_number - TRIES), ti.try_number):
        try:
            # As the server names the file for the worker, which does not tell the task.
            name = ti.task.render_template(template, {**context, "try_number": number})
            for file in _files_of(folder / str(name)):
                lines += lines_in(file)
        except Exception as err:  # noqa: BLE001  # a template of the user's; nothing depends on these lines
            logger.warning("perhaps showing lines of try %d again: %s", number, err)
    return lines


def _files_of(worker_file: Path) -> list[Path]:
    """Return those of a try that are here: its worker's, then those of its triggerers, by their numbers."""
    triggers = worker_file.parent.glob(f"{escape(worker_file.name)}.trigger.*.log")
    by_number = sorted(triggers, key=lambda file: (len(file.name), file.name))
    return [file for file in (worker_file, *by_number[-TRIGGERERS:]) if file.exists()]


def lines_in(path: Path) -> Iterator[ShownLine]:
    """Yield the last lines of apps that a log file of Airflow's shows.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFile: It is no regular file, or cannot be read.
    """
    start = max(0, path.stat().st_size - TAIL_BYTES)
    for record in read_part(str(path), start, TAIL_BYTES).split(b"\n"):
        if f'"{OURS}"'.encode() in record:
            yield from _lines_of(record)


def _lines_of(record: bytes) -> Iterator[ShownLine]:
    try:
        match json.loads(record):
            case {"logger": str(name), "timestamp": str(time), "event": str(text)} if name == OURS:
                written = datetime.fromisoformat(time)
                yield from (ShownLine(written, line) for line in text.split("\n"))
            case _:
                pass
    except (ValueError, RecursionError):
        pass  # the first one may be cut, and the last one
