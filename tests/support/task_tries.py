"""Tries of a task, and records of them, with what a test does not care about filled in."""

from __future__ import annotations

from airflow_torchx._record import Record
from airflow_torchx._tries import TaskTry

__all__ = ["make_record", "make_try"]


def make_try(**fields: object) -> TaskTry:
    """Return the first try of a task that is retried twice, unless a field says otherwise."""
    given: dict[str, object] = {
        "dag_id": "d",
        "run_id": "r",
        "task_id": "t",
        "map_index": -1,
        "ti_id": f"ti{fields.get('number', 1)}",
        "number": 1,
        "generation": 2,
    }
    return TaskTry(**given | fields)  # type: ignore[arg-type]  # tests pass what it takes


def make_record(**fields: object) -> Record:
    """Return what that first try has recorded once its app is submitted."""
    given: dict[str, object] = {
        "handle": "local_cwd://s/a",
        "generation": 2,
        "attempt": 0,
        "try_number": 1,
        "salt": "",
        "submitted": True,
        "cursor": None,
        "lease_s": None,
        "deadline": None,
    }
    return Record(**given | fields)  # type: ignore[arg-type]
