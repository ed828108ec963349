"""Batches of events as plain JSON values."""

from __future__ import annotations

from dataclasses import fields
from typing import Final, cast

from torchx_core.schedulers.events import (
    AppEvent,
    Batch,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
)
from torchx_core.specs import AppState, AppStatus
from torchx_core.supervisor.records import Json

__all__ = ["dump_batch", "load_batch"]

_LINES: Final = LogLines.__name__
_CLASSES: Final = {
    cls.__name__: cls for cls in (ReplicaChanged, StateChanged, Progress, Metric, Result, LogsLost)
}


def dump_batch(batch: Batch) -> Json:
    """Return the batch as plain JSON values."""
    return {"events": [_dump_event(event) for event in batch.events], "cursor": batch.cursor}


def load_batch(data: Json) -> Batch:
    """Return the batch that `dump_batch` was given."""
    events = cast("list[tuple[str, object]]", data["events"])
    return Batch(events=tuple(_load_event(name, value) for name, value in events), cursor=str(data["cursor"]))


def _dump_event(event: AppEvent) -> tuple[str, object]:
    if isinstance(event, LogLines):
        return _LINES, list(event)
    values = {f.name: getattr(event, f.name) for f in fields(event)}
    if isinstance(event, ReplicaChanged | StateChanged):
        values["state"] = event.state.name
    if isinstance(event, StateChanged) and event.status is not None:
        values["status"] = event.status.to_json()
    return type(event).__name__, values


def _load_event(name: str, value: object) -> AppEvent:
    if name == _LINES:
        role, replica, attempt, stream, lines, time, eol = cast("list[object]", value)
        text = cast("list[str]", lines)
        return LogLines(role, replica, attempt, stream, tuple(text), time, eol)  # type: ignore[arg-type]
    values = dict(cast("Json", value))
    if "state" in values:
        values["state"] = AppState[str(values["state"])]
    if values.get("status") is not None:
        values["status"] = AppStatus.from_json(cast("Json", values["status"]))
    return _CLASSES[name](**values)  # type: ignore[arg-type]
