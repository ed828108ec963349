"""Puts down the request that an app ends, and wakes whoever serves it."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Mapping

from torchx_core.errors import RecordUnavailableError, SchedulerError
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.supervisor import machine
from torchx_core.supervisor.records import CANCEL, CTL, LOOK, read_json, replace_whole, stop_order, write_once
from torchx_core.supervisor.shape import is_number

__all__ = ["ask_to_end", "grace_end", "wake"]

_LOCK = "cancel.lock"


def ask_to_end(record: AppRecord, grace_s: float | None, reason: str) -> None:
    """Write the request, so that it outlives everybody, and wake the supervisor.

    The first request counts, but for its grace period: a later one that names a shorter one cuts it short.

    On a full disk the supervisor is asked directly; the reason is then lost.

    Raises:
        SchedulerError: Neither is possible just now; retryable.
        FileNotFoundError: The app was deleted.
    """
    cancel_request: dict[str, object] = {
        "outcome": machine.CANCELLED,
        "msg": reason or "cancelled",
        "grace_s": grace_s,
        "monotonic": time.monotonic(),
    }
    try:
        first = write_once(record.directory, CANCEL, cancel_request)
        if not first and grace_s is not None:
            _hasten(record, cancel_request)
        damaged = not first and read_json(record.path(CANCEL)) is None
    except FileNotFoundError:
        raise
    except (OSError, RecordUnavailableError) as err:
        if not wake(record, stop_order(grace_s)):
            raise SchedulerError(f"cannot cancel {record.directory}: {err}", retryable=True) from err
    else:
        wake(record, stop_order(grace_s) if damaged else LOOK)


def _hasten(record: AppRecord, cancel_request: dict[str, object]) -> None:
    """Give the request that is there the grace period of this one, if that ends sooner."""
    with record.locked(_LOCK):
        first = read_json(record.path(CANCEL))
        if first is not None and grace_end(record, cancel_request) < grace_end(record, first):
            hasty = {**first, "grace_s": cancel_request["grace_s"], "monotonic": cancel_request["monotonic"]}
            replace_whole(record.directory, CANCEL, hasty)


def grace_end(record: AppRecord, cancel_request: Mapping[str, object]) -> float:
    """Return when the request's grace period is over, by `time.monotonic`; never, if it is damaged."""
    grace, asked = cancel_request.get("grace_s"), cancel_request.get("monotonic")
    grace_s = float(str(grace)) if is_number(grace) else record.plan.grace_s
    return float(str(asked)) + grace_s if is_number(asked) else math.inf


def wake(record: AppRecord, order: bytes) -> bool:
    """Wake the supervisor; false when there is none."""
    try:
        fd = os.open(record.path(CTL), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # ENXIO: nobody has the other end open
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        os.write(fd, order)
    except OSError:
        return True  # full of orders already: it will wake up for those
    finally:
        os.close(fd)
    return True
