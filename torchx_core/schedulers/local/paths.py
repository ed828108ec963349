"""Where the local schedulers keep their records."""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import quote, unquote

from torchx_core.errors import InvalidInputError, SchedulerError

__all__ = ["check_file_system", "default_state_dir", "file_name", "name_of"]

_MAX_NAME = 200
_SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs")


def default_state_dir() -> str:
    """Return ``$TORCHX_STATE_DIR``, or ``torchx`` in the XDG state directory (~/.local/state)."""
    chosen = os.environ.get("TORCHX_STATE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    state_home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state_home, "torchx")


def file_name(name: str) -> str:
    """Return a file name for any text: never hidden, never a path, and turned back by `name_of`.

    Raises:
        InvalidInputError: It would be too long for a file system.
    """
    quoted = quote(name, safe="+=@:,", errors="surrogateescape")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if not quoted or len(quoted) > _MAX_NAME:
        raise InvalidInputError(f"cannot use {name!r} as a name: it must have 1 to {_MAX_NAME} characters")
    return quoted


def name_of(file: str) -> str:
    """Return what `file_name` was given."""
    return unquote(file, errors="surrogateescape")


def check_file_system(path: str) -> None:
    """Refuse a state directory on a network file system.

    Locks, pipes and links there do not reach, or do not hold, across hosts (flock(2), fifo(7)).

    Raises:
        SchedulerError: It is on one.
    """
    kind = _file_system(os.path.realpath(path), _mounts())
    if kind in _SHARED or kind.startswith("fuse."):
        raise SchedulerError(
            f"state directory {path} is on a network file system ({kind}), where locks and pipes are not"
            " reliable; set TORCHX_STATE_DIR to a directory on a local disk"
        )


def _file_system(path: str, mounts: Iterable[tuple[str, str]]) -> str:
    best, kind = "", ""
    for point, candidate in mounts:
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, candidate
    return kind


def _mounts() -> list[tuple[str, str]]:
    try:
        with open("/proc/self/mountinfo") as file:
            rows = [line.partition(" - ") for line in file]
    except OSError:
        return []  # not Linux: nothing to look it up in
    return [(left.split()[4].replace("\\040", " "), right.split()[0]) for left, _, right in rows]
