"""App handles: ``scheduler://session/app_id``."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from torchx_core.errors import MalformedAppHandleException

__all__ = ["AppHandle", "ParsedAppHandle", "make_app_handle", "parse_app_handle", "split_place"]

AppHandle: TypeAlias = str
"""Names one app everywhere: ``scheduler://session/app_id``."""

_SCHEDULER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+@-]*")


class ParsedAppHandle(NamedTuple):
    """The three parts of an app handle."""

    scheduler_backend: str
    session_name: str
    app_id: str


def parse_app_handle(app_handle: AppHandle) -> ParsedAppHandle:
    """Split a handle into its parts, strictly: nothing is trimmed, nothing is guessed.

    The session may have no name, as in ``local_cwd:///train-x1``: that is a session of its own.

    Raises:
        MalformedAppHandleException: A part is missing, the scheduler or the app id is empty, or a part has a
            character it must not have.

    Example:
        >>> parse_app_handle("local_cwd://torchx/train-x1").app_id
        'train-x1'
    """
    scheduler, found, path = app_handle.partition("://")
    if not found:
        raise MalformedAppHandleException(app_handle, "there is no '://'")
    parts = path.split("/")
    if len(parts) != len(("session", "app_id")):
        raise MalformedAppHandleException(app_handle, f"{len(parts) - 1} '/' after '://' instead of one")
    parsed = ParsedAppHandle(scheduler, *parts)
    _check(parsed, app_handle)
    return parsed


def make_app_handle(scheduler_backend: str, session_name: str, app_id: str) -> AppHandle:
    """Join the parts; `parse_app_handle` gives exactly the same parts back.

    Raises:
        MalformedAppHandleException: `parse_app_handle` would refuse the result.
    """
    handle = f"{scheduler_backend}://{session_name}/{app_id}"
    _check(ParsedAppHandle(scheduler_backend, session_name, app_id), handle)
    return handle


def split_place(scheduler: str) -> tuple[str, str | None]:
    """Return the scheduler's own name, and the place where it is asked for; None for this host.

    Example:
        >>> split_place("local_cwd@gpu-box")
        ('local_cwd', 'gpu-box')
    """
    name, at, place = scheduler.partition("@")
    return name, place if at else None


def _check(parts: ParsedAppHandle, handle: str) -> None:
    if not _SCHEDULER.fullmatch(parts.scheduler_backend):
        allowed = "letters, digits and _.:+@- are allowed"
        raise MalformedAppHandleException(handle, f"scheduler {parts.scheduler_backend!r}: {allowed}")
    for name, part in (("session", parts.session_name), ("app id", parts.app_id)):
        problem = _problem(part)
        if problem:
            raise MalformedAppHandleException(handle, f"{name} {part!r} {problem}")
    if not parts.app_id:
        raise MalformedAppHandleException(handle, "app id '' is empty")


def _problem(part: str) -> str | None:
    if "/" in part:
        return "has a '/'"
    if " " in part or not part.isprintable():
        return "has white space or a control character"
    return None
