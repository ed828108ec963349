"""What the local schedulers' state directory must lie on."""

from __future__ import annotations

import os
from collections.abc import Iterable

from torchx_core.errors import SchedulerError

__all__ = ["check_file_system"]

_SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "glusterfs", "beegfs")


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
