"""What ``--json`` prints: plain values of a fixed shape (docs/reference/cli-schemas)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import cast

from torchx_core.schedulers import AppEvent, LogLines
from torchx_core.specs import AppHandle, AppStatus, parse_app_handle

__all__ = ["event_documents", "handle_fields", "plain", "status_document"]

_TYPES = {
    "Link": "link",
    "LogsLost": "lost",
    "Metric": "metric",
    "Progress": "progress",
    "ReplicaChanged": "replica",
    "Result": "result",
    "StateChanged": "state",
    "UsageSample": "usage",
}


def handle_fields(app_handle: AppHandle) -> dict[str, object]:
    """Return a handle and its parts."""
    parsed = parse_app_handle(app_handle)
    return {
        "handle": app_handle,
        "scheduler": parsed.scheduler_backend,
        "session": parsed.session_name,
        "app_id": parsed.app_id,
    }


def status_document(app_handle: AppHandle, status: AppStatus, roles: Sequence[str] | None) -> object:
    """Return an app's handle and status."""
    return plain({**handle_fields(app_handle), **_status_fields(status, roles)})


def event_documents(event: AppEvent) -> Iterator[object]:
    """Yield the event as documents: one per log line, else one."""
    if isinstance(event, LogLines):
        for line in event.each():
            yield {"type": "log", **line._asdict()}
    else:
        yield {"type": _TYPES[type(event).__name__], **cast("dict[str, object]", plain(event))}


def plain(value: object) -> object:
    """Return JSON values only: enums by name, dataclasses as objects, numbers that JSON lacks as text.

    Example:
        >>> plain({"loss": float("nan"), "steps": (1, 2)})
        {'loss': 'NaN', 'steps': [1, 2]}
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NO_NUMBERS[str(value)]
    return _plain_structure(value)


def _plain_structure(value: object) -> object:
    if isinstance(value, AppStatus):
        return plain(_status_fields(value, None))
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return str(value)


_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _status_fields(status: AppStatus, roles: Sequence[str] | None) -> dict[str, object]:
    """Return the status without ``url``, which is TorchX's name for what ``ui_url`` has."""
    return {name: value for name, value in status.to_json(roles).items() if name != "url"}
