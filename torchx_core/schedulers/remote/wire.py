"""What a scheduler is told, answers and raises, as plain JSON values and back.

Both sides have the same version of this library, so a value travels as the name of its class and its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Final, cast

from torchx_core import errors
from torchx_core.errors import SchedulerError, TorchXError
from torchx_core.schedulers.events import (
    REPORTS,
    Batch,
    LogLines,
    LogsLost,
    ReplicaChanged,
    StateChanged,
    UsageSample,
)
from torchx_core.schedulers.responses import (
    CancelOutcome,
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Stream,
    Verdict,
)
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, Usage
from torchx_core.supervisor.records import Json

__all__ = ["dump", "dump_error", "load", "load_error"]

_ENUMS: Final[Mapping[str, type[Enum]]] = {
    cls.__name__: cls for cls in (AppState, CancelOutcome, Stream, Verdict)
}
_EVENTS: Final = (*REPORTS.values(), LogsLost, ReplicaChanged, StateChanged, UsageSample, Usage)
_CLASSES: Final[Mapping[str, type[object]]] = {
    cls.__name__: cls for cls in (Batch, *_EVENTS, Finding, FollowOptions, ListAppResponse, ReplicaStatus)
}
_REQUESTS: Final[Mapping[str, str]] = {"SlurmRequest": "torchx_core.schedulers.slurm.request"}
"""Requests that are rendered by whoever asks: the class, and its module."""


def dump(value: object) -> object:
    """Return the value in JSON's types; each object has one key, which names the class of its content."""
    content: object
    kind = type(value).__name__
    match value:
        case Enum():
            content = value.name
        case LogLines():
            content = list(value)
        case AppDef():
            content = value.to_dict()
        case AppStatus():
            content = value.to_json()
        case DescribeAppResponse():
            app = AppDef(name=value.name, roles=value.roles, metadata=value.metadata)
            content = [value.app_id, dump(app), dump(value.status)]
        case tuple() | frozenset():
            content = dump(list(cast("tuple[object, ...]", value)))
        case Mapping():
            kind = "dict"
            content = {name: dump(item) for name, item in cast("Json", value).items()}
        case _ if is_dataclass(value):
            content = {field.name: dump(getattr(value, field.name)) for field in fields(value)}
        case list():
            return [dump(item) for item in cast("list[object]", value)]
        case _:
            return value
    return {kind: content}


def load(data: object) -> object:
    """Return the value that `dump` was given.

    Raises:
        KeyError: It is of no class that travels.
    """
    if isinstance(data, list):
        return [load(item) for item in cast("list[object]", data)]
    if not isinstance(data, dict):
        return data
    [(kind, content)] = cast("Json", data).items()
    match content:
        case str():
            return _ENUMS[kind][content]
        case list():
            return _load_items(kind, cast("list[object]", content))
        case _:
            return _load_fields(kind, cast("Json", content))


def _load_items(kind: str, items: list[object]) -> object:
    match kind:
        case "LogLines":
            role, replica, attempt, stream, lines, time, eol = items
            text = tuple(cast("list[str]", lines))
            return LogLines(role, replica, attempt, stream, text, time, eol)  # type: ignore[arg-type]
        case "DescribeAppResponse":
            app_id, app, status = map(load, items)
            return DescribeAppResponse.of(str(app_id), cast("AppDef", app), cast("AppStatus", status))
        case "frozenset":
            return frozenset(map(load, items))
        case _:
            return tuple(map(load, items))


def _load_fields(kind: str, content: Json) -> object:
    if kind == "AppDef":
        return AppDef.from_dict(content)
    if kind == "AppStatus":
        return AppStatus.from_json(content)
    values = {name: load(item) for name, item in content.items()}
    return values if kind == "dict" else _class_of(kind)(**values)


def _class_of(kind: str) -> Callable[..., object]:
    if kind in _REQUESTS:
        return cast("Callable[..., object]", getattr(import_module(_REQUESTS[kind]), kind))
    return cast("Callable[..., object]", _CLASSES[kind])


def dump_error(error: Exception) -> Json:
    """Return the error as plain JSON values.

    A class of a scheduler's own travels as the public one that it is; what this library did not raise on
    purpose as a SchedulerError that names it.
    """
    if not isinstance(error, TorchXError):
        error = SchedulerError(f"on the other host: {type(error).__name__}: {error}")
    public = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in errors.__all__)
    return {**error.to_json(), "type": public}


def load_error(data: Json) -> TorchXError:
    """Return the error that `dump_error` was given: the same class, message and facts.

    Raises:
        ValueError: It is none.
    """
    name = str(data["type"])
    if name not in errors.__all__:
        raise ValueError(f"not an error of ours: {name!r}")
    facts = {key: value for key, value in data.items() if key not in {"type", "message"}}
    cls = cast("type[TorchXError]", getattr(errors, name))
    error = cls.__new__(cls, str(data["message"]))
    vars(error).update(facts)
    return error
