"""App statuses as plain JSON values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.specs.checks import show, want_float, want_int, want_list, want_map, want_str
from torchx_core.specs.sentinels import NONE
from torchx_core.specs.state import AppState
from torchx_core.specs.status import AppStatus, ReplicaStatus, RoleStatus
from torchx_core.specs.usage import Usage

__all__ = ["from_json", "role_to_json", "to_json"]


def to_json(status: AppStatus, filter_roles: Collection[str] | None = None) -> dict[str, object]:
    """Return the fields; states by name, and only the given roles, or all; the URL also as TorchX has it."""
    roles = [r for r in status.roles if not filter_roles or r.role in filter_roles]
    return {**_fields(status), "roles": [role_to_json(r) for r in roles], "url": status.ui_url}


def role_to_json(role: RoleStatus) -> dict[str, object]:
    """Return the fields of one role and its replicas."""
    replicas = [{**_fields(replica), "usage": replica.usage.to_json()} for replica in role.replicas]
    return {"role": role.role, "replicas": replicas}


def _fields(status: AppStatus | ReplicaStatus) -> dict[str, object]:
    values = {f.name: getattr(status, f.name) for f in fields(status) if f.init}
    return {**values, "state": status.state.name}


def from_json(data: Mapping[str, object]) -> AppStatus:
    """Read a status; what is missing has its default, what is unknown is ignored.

    Raises:
        InvalidInputError: A field has the wrong type, or the state is missing.
    """
    try:
        return _read_app(want_map(data, "status"))
    except InvalidAppError as err:
        raise InvalidInputError(f"not an app status: {err}") from err


def _read_app(data: Mapping[str, object]) -> AppStatus:
    roles = want_list(data.get("roles", []), "roles")
    return AppStatus(
        state=_state(data, "state"),
        num_restarts=want_int(data.get("num_restarts", 0), "num_restarts"),
        msg=want_str(data.get("msg", ""), "msg"),
        structured_error_msg=want_str(data.get("structured_error_msg", NONE), "structured_error_msg"),
        ui_url=_optional_str(data, "ui_url", "ui_url") or _optional_str(data, "url", "url"),
        roles=[_read_role(role, f"roles[{i}]") for i, role in enumerate(roles)],
        result=data.get("result"),
    )


def _read_role(value: object, path: str) -> RoleStatus:
    data = want_map(value, path)
    replicas = want_list(data.get("replicas", []), f"{path}.replicas")
    return RoleStatus(
        role=want_str(data.get("role"), f"{path}.role"),
        replicas=[_read_replica(item, f"{path}.replicas[{i}]") for i, item in enumerate(replicas)],
    )


def _read_replica(value: object, path: str) -> ReplicaStatus:
    data = want_map(value, path)
    exit_code = data.get("exit_code")
    return ReplicaStatus(
        id=want_int(data.get("id"), f"{path}.id"),
        state=_state(data, f"{path}.state"),
        role=want_str(data.get("role"), f"{path}.role"),
        hostname=want_str(data.get("hostname", ""), f"{path}.hostname"),
        structured_error_msg=want_str(data.get("structured_error_msg", NONE), f"{path}.structured_error_msg"),
        hostaddr=want_str(data.get("hostaddr", ""), f"{path}.hostaddr"),
        exit_code=None if exit_code is None else want_int(exit_code, f"{path}.exit_code"),
        signal=_optional_str(data, "signal", f"{path}.signal"),
        attempt=want_int(data.get("attempt", 0), f"{path}.attempt"),
        started_at=_optional_time(data, "started_at", path),
        ended_at=_optional_time(data, "ended_at", path),
        msg=want_str(data.get("msg", ""), f"{path}.msg"),
        log_dir=want_str(data.get("log_dir", ""), f"{path}.log_dir"),
        usage=Usage.from_json(want_map(data.get("usage", {}), f"{path}.usage"), f"{path}.usage"),
    )


def _state(data: Mapping[str, object], path: str) -> AppState:
    value = data.get("state")
    if not isinstance(value, str) or value not in AppState.__members__:
        raise InvalidAppError(path, f"must be one of {', '.join(AppState.__members__)}: {show(value)}")
    return AppState[value]


def _optional_str(data: Mapping[str, object], name: str, path: str) -> str | None:
    value = data.get(name)
    return None if value is None else want_str(value, path)


def _optional_time(data: Mapping[str, object], name: str, path: str) -> float | None:
    value = data.get(name)
    return None if value is None else want_float(value, f"{path}.{name}")
