"""App statuses as text for people."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping

from torchx_core.specs.checks import is_list, is_map
from torchx_core.specs.sentinels import NONE
from torchx_core.specs.state import AppState
from torchx_core.specs.status import AppStatus, ReplicaStatus
from torchx_core.specs.structured_error import StructuredError, parse_structured_error
from torchx_core.terminal import harmless

__all__ = ["as_yaml", "failure_summary", "format_status"]

_OTHERS_SHOWN = 10


def failure_summary(status: AppStatus) -> str:
    """Return why the app did not succeed, most telling facts first; see `AppStatus.failure_summary`."""
    if status.state is AppState.SUCCEEDED:
        return ""
    failed = status.failed_replicas()
    first = failed[0] if failed else None
    error = _error_of(first, status)
    lines = [_headline(status, first, error)]
    if error:
        lines.append(_indented("error: ", error.message))
    lines += [_indented("message: ", msg) for msg in _messages(status, first)]
    if first and first.log_dir:
        lines.append(f"  logs: {first.log_dir}")
    if len(failed) > 1:
        lines.append(f"  also failed: {_others(failed[1:])}")
    return harmless("\n".join(lines))


def _error_of(first: ReplicaStatus | None, status: AppStatus) -> StructuredError | None:
    own = parse_structured_error(first.structured_error_msg) if first else None
    return own or parse_structured_error(status.structured_error_msg)


def _headline(status: AppStatus, first: ReplicaStatus | None, error: StructuredError | None) -> str:
    if first is None:
        return f"app is {status.state}, not SUCCEEDED" + (
            f" (at {error.time})" if error and error.time else ""
        )
    details = [f"attempt {first.attempt}"] if first.attempt else []
    details += [f"on {first.hostname}"] if first.hostname else []
    details += [f"at {error.time}"] if error and error.time else []
    suffix = f" ({', '.join(details)})" if details else ""
    return f"replica {_name(first)} {_cause(first, error)}{suffix}; app is {status.state}"


def _cause(replica: ReplicaStatus, error: StructuredError | None) -> str:
    if replica.signal:
        return f"was killed by {replica.signal}"
    exit_code = replica.exit_code if replica.exit_code is not None or error is None else error.exit_code
    return "failed" if exit_code is None else f"failed with exit code {exit_code}"


def _messages(status: AppStatus, first: ReplicaStatus | None) -> list[str]:
    given = [first.msg if first else "", status.msg]
    if first and status.msg.startswith(f"{_name(first)} failed"):
        given.pop()  # a backend that says what the first line says already
    return list(dict.fromkeys(msg for msg in given if msg.strip() and msg != NONE))


def _others(failed: list[ReplicaStatus]) -> str:
    shown = ", ".join(f"{_name(r)} ({_outcome(r)})" for r in failed[:_OTHERS_SHOWN])
    hidden = len(failed) - _OTHERS_SHOWN
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def _name(replica: ReplicaStatus) -> str:
    return f"{replica.role}/{replica.id}"


def _outcome(replica: ReplicaStatus) -> str:
    if replica.signal:
        return replica.signal
    return "exit code unknown" if replica.exit_code is None else f"exit code {replica.exit_code}"


def _indented(title: str, text: str) -> str:
    """Put the text behind the title, its further lines below its first."""
    title = f"  {title}"
    return title + text.strip().replace("\n", "\n" + " " * len(title))


def format_status(status: AppStatus, filter_roles: Collection[str] | None) -> str:
    """Return one block: state, restarts, one line (or more) per replica, messages, URL."""
    lines = ["AppStatus:", f"  State: {status.state}", f"  Num Restarts: {status.num_restarts}", "  Roles:"]
    for role in status.roles:
        if not filter_roles or role.role in filter_roles:
            for replica in sorted(role.replicas, key=lambda r: r.id):
                lines += _replica_lines(replica)
    lines.append(_indented("Msg: ", status.msg))
    lines.append(_indented("Structured Error Msg: ", status.structured_error_msg))
    lines.append(f"  UI URL: {status.ui_url}")
    return harmless("\n".join(line.rstrip() for line in lines) + "\n")


def _replica_lines(replica: ReplicaStatus) -> Iterator[str]:
    error = parse_structured_error(replica.structured_error_msg)
    mark = "*" if replica.id == 0 else " "
    yield f"   {mark}{_name(replica)}: {replica.state}{_ending(replica, error)}"
    if error and error.time:
        yield f"      timestamp: {error.time}"
    if error:
        yield f"      hostname: {replica.hostname}"
        yield _indented("    error_msg: ", error.message)
    if replica.msg:
        yield _indented("    msg: ", replica.msg)


def _ending(replica: ReplicaStatus, error: StructuredError | None) -> str:
    if replica.signal:
        return f" (signal: {replica.signal})"
    exit_code = replica.exit_code if replica.exit_code is not None or error is None else error.exit_code
    return "" if exit_code is None else f" (exit code: {exit_code})"


def as_yaml(title: str, value: Mapping[str, object]) -> str:
    """Return fields as YAML without loading PyYAML, which a log statement should not do."""
    return "\n".join([f"{title}:", *_yaml_lines(value, "  ")])


def _yaml_lines(fields: Mapping[str, object], indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if name in ("roles", "replicas") and is_list(value) and value:
            yield f"{indent}{name}:"
            yield from _yaml_items(value, f"{indent}- ")
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _yaml_items(items: Iterable[object], dash: str) -> Iterator[str]:
    for item in items:
        assert is_map(item)
        named = {str(name): value for name, value in item.items()}
        first, *others = _yaml_lines(named, " " * len(dash))
        yield dash + first.lstrip()
        yield from others


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if text.isprintable() else json.dumps(value, default=repr)
