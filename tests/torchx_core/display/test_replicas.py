from __future__ import annotations

from typing import Any

from local_apps import app_of

from torchx_core.display.replicas import MAX_ROWS, ReplicaTable
from torchx_core.schedulers import ReplicaChanged
from torchx_core.specs import AppState, AppStatus, ReplicaStatus, RoleStatus, Usage


def _changed(replica: int, state: AppState, **what: Any) -> ReplicaChanged:
    fields: dict[str, Any] = {"role": "r", "replica": replica, "attempt": 0, "time": 10.0, "state": state}
    return ReplicaChanged(**fields | what)


def test_every_replica_has_a_row_before_it_starts() -> None:
    """One sees what is missing."""
    table = ReplicaTable(app_of("true", num_replicas=2))
    assert [(row["replica"], row["state"]) for row in table.rows(0.0)] == [
        ("r/0", "PENDING"),
        ("r/1", "PENDING"),
    ]


def test_a_row_follows_the_latest_attempt() -> None:
    """With its number as people count, how long it has been running, and how the last one ended."""
    table = ReplicaTable(app_of("true"))
    table.take(_changed(0, AppState.RUNNING))
    assert table.rows(11.5)[0]["duration"] == "1.5 s"
    assert (table.rows(11.5)[0]["cpu"], table.rows(11.5)[0]["memory"]) == ("", "")
    table.take(_changed(0, AppState.FAILED, time=12.0, signal="SIGKILL", msg="out of memory"))
    [row] = table.rows(99.0)
    assert (row["state"], row["exit"], row["duration"], row["message"]) == (
        "FAILED",
        "SIGKILL",
        "2.0 s",
        "out of memory",
    )
    table.take(_changed(0, AppState.RUNNING, time=20.0, attempt=1))
    [row] = table.rows(20.0 + 3725)
    assert (row["state"], row["exit"], row["attempt"], row["duration"]) == ("RUNNING", "", 2, "1:02:05")


def test_at_the_end_the_status_is_believed() -> None:
    """It knows hosts, and what happened while nobody followed."""
    table = ReplicaTable(app_of("true"))
    usage = Usage(cpu_s=90.0, memory_peak_bytes=512 << 20, memory_limit_bytes=2 << 30)
    known = ReplicaStatus(
        id=0, state=AppState.FAILED, role="r", hostname="node7", exit_code=3, attempt=2, usage=usage
    )
    table.complete(AppStatus(state=AppState.FAILED, roles=[RoleStatus("r", [known])]))
    [row] = table.rows(0.0)
    assert (row["state"], row["exit"], row["attempt"], row["host"]) == ("FAILED", "3", 3, "node7")
    assert (row["cpu"], row["memory"]) == ("0:01:30", "512 MB of 2.0 GB")


def test_of_a_great_many_those_in_trouble_come_first() -> None:
    """A page shows all rows at once, so there is a limit; the summary counts all."""
    table = ReplicaTable(app_of("true", num_replicas=2 * MAX_ROWS))
    for number in range(2 * MAX_ROWS):
        table.take(_changed(number, AppState.RUNNING))
    table.take(_changed(2 * MAX_ROWS - 1, AppState.FAILED))
    rows = table.rows(0.0)
    assert len(rows) == MAX_ROWS
    assert rows[0]["replica"] == f"r/{2 * MAX_ROWS - 1}"
    assert table.summary() == f"{2 * MAX_ROWS - 1} RUNNING, 1 FAILED"
