"""Finds in a run's log, on Prefect's server, what it has of an app behind the position that was saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTaskRunId,
    LogFilterTimestamp,
)
from prefect.client.schemas.objects import Log
from prefect.client.schemas.sorting import LogSort

from prefect_torchx._engine.server import pages
from prefect_torchx.position import Shown, source_in
from prefect_torchx.records import MAX_TIMES
from torchx_core.specs import AppHandle

__all__ = ["log_of", "shown_after"]

MAX_RECORDS = 2000
MAX_CHARS = 8_000_000
"""How much of the end of a log is read: more than a process brings there between two saves."""
ROUNDING_S = 1e-6
"""Prefect keeps times in microseconds; records of one source are further apart."""


def log_of(run: str, *, is_task: bool) -> LogFilter:
    """Return what selects the log of a flow run, all its task runs included, or of a task run without one."""
    if is_task:
        return LogFilter(task_run_id=LogFilterTaskRunId(any_=[UUID(run)]))
    return LogFilter(flow_run_id=LogFilterFlowRunId(any_=[UUID(run)]))


def shown_after(
    client: SyncPrefectClient,
    log: LogFilter,
    handle: AppHandle,
    times: Mapping[str, float],
    noted_at: float,
) -> dict[str, Shown]:
    """Return by source what the log has of an app behind a position, of its beginning perhaps not all.

    Never more than that: who leaves out what is in the log too often has lost a line.

    Args:
        client: Of the server that has the log.
        log: Selects the log.
        handle: The app.
        times: See `Position.times`.
        noted_at: When the app was about to be submitted, in seconds since the epoch. What is older is about
            another app of that name, which was deleted.
    """
    # Of a source that is not among them nothing came before, unless they are too many to be all.
    of_others = noted_at if len(times) < MAX_TIMES else float("inf")
    records: defaultdict[str, list[Log]] = defaultdict(list)
    for record in _end_of(client, log, min([noted_at, *times.values()])):
        source = source_in(record.name, handle)
        if source is not None and _time(record) > times.get(source, of_others) + ROUNDING_S:
            records[source].append(record)
    return {source: _shown(its) for source, its in records.items()}


def _end_of(client: SyncPrefectClient, log: LogFilter, since: float) -> list[Log]:
    """Return the latest records, in order."""
    found: dict[UUID, Log] = {}  # what is written meanwhile moves the rest to the next page
    after = LogFilterTimestamp.model_validate({"after_": datetime.fromtimestamp(since, UTC)})
    where = log.model_copy(update={"timestamp": after})

    def read(limit: int, offset: int) -> list[Log]:
        return client.read_logs(where, limit=limit, offset=offset, sort=LogSort.TIMESTAMP_DESC)

    size = 0
    for page in pages(read):
        found |= {record.id: record for record in page}
        size += sum(len(record.message) for record in page)
        if len(found) >= MAX_RECORDS or size >= MAX_CHARS:
            break
    return [*reversed(found.values())]


def _shown(records: list[Log]) -> Shown:
    lines = [line for record in records for line in record.message.split("\n")]
    return Shown(_time(records[-1]), tuple(lines))


def _time(record: Log) -> float:
    return record.timestamp.timestamp()
