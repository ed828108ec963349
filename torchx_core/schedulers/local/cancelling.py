"""Puts down the wish that an app ends, and wakes whoever serves it."""

from __future__ import annotations

import os
import time

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import machine
from torchx_core.supervisor.records import CANCEL, CTL, LOOK, STOP, write_once

__all__ = ["ask_to_end", "knock"]


def ask_to_end(record: AppRecord, grace_s: float | None, reason: str) -> None:
    """Write the wish, so that it outlives everybody, and wake the supervisor; the first wish counts.

    On a full disk the supervisor is asked directly; the reason is then lost.

    Raises:
        SchedulerError: Neither is possible just now; retryable.
        FileNotFoundError: The app was deleted.
    """
    wish: dict[str, object] = {
        "outcome": machine.CANCELLED,
        "msg": reason or "cancelled",
        "grace_s": grace_s,
        "monotonic": time.monotonic(),
    }
    try:
        write_once(record.directory, CANCEL, wish)
    except FileNotFoundError:
        raise
    except OSError as err:
        if not knock(record, STOP):
            raise SchedulerError(f"cannot cancel {record.directory}: {err.strerror}", retryable=True) from err
    else:
        knock(record, LOOK)


def knock(record: AppRecord, wish: bytes) -> bool:
    """Wake the supervisor; false when there is none."""
    try:
        fd = os.open(record.path(CTL), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # ENXIO: nobody has the other end open
    try:
        os.write(fd, wish)
    except OSError:
        return True  # full of wishes already: it will wake up for those
    finally:
        os.close(fd)
    return True
