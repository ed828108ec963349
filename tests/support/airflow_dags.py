"""DAGs run in this process with ``dag.test()``, and what their runs came to."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

__all__ = ["AIRFLOW", "PROLOGUE", "SETTINGS", "Dags", "Outcome", "serialized"]

AIRFLOW = tuple(map(int, version("apache-airflow-core").split(".")[:2]))
"""The version that is installed here."""

SETTINGS = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
}
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
    asset_events: list[dict[str, object]]
    """The metadata of the events of assets."""


class Dags:
    """Runs DAGs as ``airflow dags test`` does."""

    def __init__(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._home = home
        self._capfd = capfd

    def run(self, body: str, *, logical_date: datetime | None = None, **conf: object) -> Outcome:
        """Run the DAG ``d`` that has this body once, with this configuration."""
        head = 'with DAG("d", schedule=None, params={"word": "none"}):\n'
        program = PROLOGUE + head + textwrap.indent(textwrap.dedent(body), "    ")
        return self.run_file("d", program, logical_date=logical_date, **conf)

    def run_file(
        self, dag_id: str, program: str, *, logical_date: datetime | None = None, **conf: object
    ) -> Outcome:
        """Run the DAG of that name from a file with this text."""
        source = self._home / "dags" / "d.py"
        source.write_text(program)
        bag = _dag_bag(source)
        assert bag.import_errors == {}
        self._capfd.readouterr()
        when: dict[str, Any] = (
            {"logical_date": logical_date, "run_after": logical_date} if logical_date else {}
        )
        run: Any = bag.dags[dag_id].test(run_conf=conf, **when)
        return Outcome(
            state=str(run.state.value),
            log=self._capfd.readouterr().out,
            xcoms=self._xcoms(run.run_id),
            rendered=self._rendered(run.run_id),
            records=self._records(run.run_id),
            asset_events=self._asset_events(run.run_id),
        )

    def _xcoms(self, run_id: str) -> dict[tuple[str, str], object]:
        rows = self._select("select task_id, key, value from xcom where run_id = ?", run_id)
        return {(task, key): _plain(value) for task, key, value in rows}

    def _rendered(self, run_id: str) -> dict[str, dict[str, object]]:
        query = "select task_id, rendered_fields from rendered_task_instance_fields where run_id = ?"
        return {task: json.loads(fields) for task, fields in self._select(query, run_id)}

    def _records(self, run_id: str) -> dict[str, dict[str, object]]:
        if AIRFLOW < (3, 3):
            return {}
        query = "select task_id, value from task_state_store where run_id = ? and key = 'torchx'"
        return {task: json.loads(value) for task, value in self._select(query, run_id)}

    def _asset_events(self, run_id: str) -> list[dict[str, object]]:
        query = "select extra from asset_event where source_run_id = ?"
        return [json.loads(extra) for (extra,) in self._select(query, run_id)]

    def _select(self, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self._home / "airflow.db")) as database:
            yield from database.execute(query, values).fetchall()


def serialized(dag: object) -> object:
    """Return the DAG as Airflow stores it."""
    module: Any = import_module("airflow.serialization.serialized_objects")
    serialization = module.DagSerialization if AIRFLOW >= (3, 2) else module.SerializedDAG
    return serialization.to_dict(dag)


def _dag_bag(source: Path) -> Any:
    """Return the DAGs of the file."""
    package = "airflow.dag_processing" if AIRFLOW >= (3, 2) else "airflow.models"
    home: Any = import_module(f"{package}.dagbag")
    bag = home.DagBag(str(source))
    if AIRFLOW < (3, 3):
        _store(bag, home.sync_bag_to_db)
    return bag


def _store(bag: Any, sync_bag_to_db: Callable[..., object]) -> None:
    """Store the DAGs: below 3.3 `dag.test()` does so only for a name that it has never seen."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]
    sync_bag_to_db(bag, "dags-folder", None)


def _plain(value: object) -> object:
    """Read a JSON column; SQLite gives a number as one."""
    return json.loads(value) if isinstance(value, str) else value
