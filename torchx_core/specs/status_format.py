"""App statuses as text for people."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Final, cast

from torchx_core.specs.state import AppState
from torchx_core.specs.status import AppStatus, ReplicaStatus
from torchx_core.specs.structured_error import StructuredError, parse_structured_error
from torchx_core.specs.usage import Usage
from torchx_core.terminal import harmless

__all__ = ["as_yaml", "format_status"]

_NA: Final = "<N/A>"
_TORCHX_FIELDS: Final = {
    AppStatus: ("state", "num_restarts", "msg", "structured_error_msg", "ui_url", "roles"),
    ReplicaStatus: ("id", "state", "role", "hostname", "structured_error_msg", "hostaddr"),
}


def _indented(title: str, text: str) -> str:
    """Put the text behind the title, its further lines below its first."""
    title = f"  {title}"
    return title + text.strip().replace("\n", "\n" + " " * len(title))


def format_status(status: AppStatus, filter_roles: Collection[str] | None) -> str:
    """Return what TorchX shows: state, restarts, one line (or more) per replica, messages, URL."""
    lines = ["AppStatus:", f"    State: {status.state}", f"    Num Restarts: {status.num_restarts}"]
    lines.append("    Roles:")
    for role in status.roles:
        if not filter_roles or role.role in filter_roles:
            for replica in sorted(role.replicas, key=lambda r: r.id):
                lines += _replica_lines(replica)
    lines.append(_indented("  Msg: ", status.msg))
    lines.append(_indented("  Structured Error Msg: ", status.structured_error_msg))
    lines.append(f"    UI URL: {status.ui_url}")
    return harmless("\n".join(line.rstrip() for line in lines) + "\n")


def _replica_lines(replica: ReplicaStatus) -> Iterator[str]:
    error = parse_structured_error(replica.structured_error_msg)
    mark = "*" if replica.id == 0 else " "
    yield f" {mark}{replica.role}[{replica.id}]:{replica.state}{_ending(replica, error)}"
    if error:
        yield f"        timestamp: {_local_time(error.timestamp)}"
        yield f"        hostname: {replica.hostname}"
        yield _indented("      error_msg: ", error.message)
    if replica.msg:
        yield _indented("      msg: ", replica.msg)


def _ending(replica: ReplicaStatus, error: StructuredError | None) -> str:
    if replica.signal:
        return f" (signal: {replica.signal})"
    exit_code = replica.exit_code if replica.exit_code is not None or error is None else error.exit_code
    if error or exit_code is not None:
        return f" (exitcode: {_NA if exit_code is None else exit_code})"
    return " (no reply file)" if replica.state in (AppState.FAILED, AppState.CANCELLED) else ""


def _local_time(seconds: int | None) -> str:
    """Return the time as TorchX shows it, on this host's clock."""
    try:
        return _NA if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return _NA


def as_yaml(status: AppStatus) -> str:
    """Return all that a status says as YAML, in TorchX's form; what TorchX lacks is there where it is set."""
    import yaml  # imported here: who shows no status does not pay for it

    shown = {
        **_said(status),
        "structured_error_msg": _parsed(status.structured_error_msg),
        "roles": [{"role": r.role, "replicas": [_said(each) for each in r.replicas]} for r in status.roles],
    }
    plain: object = json.loads(json.dumps({"AppStatus": shown}, default=_plain))
    text = yaml.safe_dump(plain, allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else yaml.safe_dump(plain)


def _said(status: AppStatus | ReplicaStatus) -> dict[str, object]:
    """Return TorchX's fields, and of the others those that have another value than their default."""
    values = {f.name: (getattr(status, f.name), f.default) for f in fields(status) if f.compare}
    always = _TORCHX_FIELDS[type(status)]
    said = {name: value for name, (value, default) in values.items() if name in always or value != default}
    return {**said, "state": repr(status.state)}


def _plain(value: object) -> object:
    if isinstance(value, Usage):
        return {name: figure for name, figure in asdict(value).items() if figure is not None}
    return repr(value)


def _parsed(text: str) -> object:
    with suppress(ValueError, RecursionError):
        return cast("object", json.loads(text))
    return text
