"""A throw-away home for Airflow, and what a DAG run in it came to."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@cache
def airflow_home() -> Path:
    """Make the home and point Airflow to it; call before Airflow is imported, which reads it only once."""
    home = Path(tempfile.mkdtemp(prefix="airflow-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "dags").mkdir()
    os.environ["AIRFLOW_HOME"] = str(home)
    os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(home / "dags")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__LOGGING__COLORED_CONSOLE_LOG"] = "False"
    return home


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one DAG run came to."""

    state: str
    log: str
    """Everything that Airflow printed."""
    xcoms: dict[tuple[str, str], object]
    """By task and key."""
    rendered: dict[str, dict[str, object]]
    """The rendered fields that the web UI shows, by task."""


def read_xcoms(home: Path, run_id: str) -> dict[tuple[str, str], object]:
    """Return the run's XComs, by task and key."""
    rows = _select(home, "select task_id, key, value from xcom where run_id = ?", run_id)
    return {(task, key): json.loads(value) for task, key, value in rows}


def read_rendered(home: Path, run_id: str) -> dict[str, dict[str, object]]:
    """Return the rendered fields of the run's tasks."""
    query = "select task_id, rendered_fields from rendered_task_instance_fields where run_id = ?"
    return {task: json.loads(fields) for task, fields in _select(home, query, run_id)}


def _select(home: Path, query: str, *values: str) -> Iterator[tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(home / "airflow.db")) as database:
        yield from database.execute(query, values).fetchall()
