"""Gives GPUs to an app so that no two apps of this host share one: a lock file per device."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence

from torchx_core.supervisor.plan import Plan


def acquire(directory: str, ids: Sequence[str], wanted: int) -> list[str] | None:
    """Return that many devices that are now ours, or None when too few are free.

    The locks belong to this process and its forks; the kernel gives them back when the last is gone,
    however it ended.

    Raises:
        OSError: A lock file cannot be opened.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    taken: dict[str, int] = {}
    for device in ids:
        if len(taken) == wanted:
            break
        fd = os.open(os.path.join(directory, f"{device}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken[device] = fd
        except BlockingIOError:
            os.close(fd)
    if len(taken) == wanted:
        return list(taken)
    for fd in taken.values():
        os.close(fd)
    return None


def shown_to(index: int, plan: Plan, taken: Sequence[str] | None) -> str | None:
    """Return the replica's own devices as CUDA_VISIBLE_DEVICES names them; None to leave that as it is."""
    wanted = plan.replicas[index].gpus
    if not wanted or taken is None:
        return None
    first = sum(replica.gpus for replica in plan.replicas[:index])
    return ",".join(taken[first : first + wanted])
