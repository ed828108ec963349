"""DAGs run in this process with ``dag.test()``, and what their runs came to."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

__all__ = ["PROLOGUE", "SETTINGS", "Dags", "Outcome"]

SETTINGS = {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False"}
"""What every Airflow in a test is told."""

PROLOGUE = """
import sys
from datetime import timedelta
from airflow.sdk import DAG, task
from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, Role

def app(*argv, **role):
    fields = {"name": "r", "image": "", "entrypoint": argv[0], "args": list(argv[1:]), **role}
    return AppDef("app", [Role(**fields)])

"""


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
    records: dict[str, dict[str, object]]
    """What the operator keeps in the task state store, by task."""


class Dags:
    """Runs DAGs as ``airflow dags test`` does."""

    def __init__(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._home = home
        self._capfd = capfd

    def run(self, body: str, *, logical_date: datetime | None = None, **conf: object) -> Outcome:
        """Run the DAG ``d`` that has this body once, with this configuration."""
        from airflow.dag_processing.dagbag import DagBag

        source = self._home / "dags" / "d.py"
        head = 'with DAG("d", schedule=None, params={"word": "none"}):\n'
        source.write_text(PROLOGUE + head + textwrap.indent(textwrap.dedent(body), "    "))
        bag = DagBag(str(source))
        assert bag.import_errors == {}
        self._capfd.readouterr()
        when: dict[str, Any] = (
            {"logical_date": logical_date, "run_after": logical_date} if logical_date else {}
        )
        run: Any = bag.dags["d"].test(run_conf=conf, **when)
        return Outcome(
            state=str(run.state.value),
            log=self._capfd.readouterr().out,
            xcoms=self._xcoms(run.run_id),
            rendered=self._rendered(run.run_id),
            records=self._records(run.run_id),
        )

    def _xcoms(self, run_id: str) -> dict[tuple[str, str], object]:
        rows = self._select("select task_id, key, value from xcom where run_id = ?", run_id)
        return {(task, key): json.loads(value) for task, key, value in rows}

    def _rendered(self, run_id: str) -> dict[str, dict[str, object]]:
        query = "select task_id, rendered_fields from rendered_task_instance_fields where run_id = ?"
        return {task: json.loads(fields) for task, fields in self._select(query, run_id)}

    def _records(self, run_id: str) -> dict[str, dict[str, object]]:
        query = "select task_id, value from task_state_store where run_id = ? and key = 'torchx'"
        return {task: json.loads(value) for task, value in self._select(query, run_id)}

    def _select(self, query: str, *values: str) -> Iterator[tuple[str, ...]]:
        with contextlib.closing(sqlite3.connect(self._home / "airflow.db")) as database:
            yield from database.execute(query, values).fetchall()
