"""Says of an app that it is not seen from here, where it was submitted, and what helps. Knows no Airflow."""

from __future__ import annotations

from socket import gethostname
from time import time

from airflow_torchx._record import Record
from torchx_core.errors import TorchXError
from torchx_core.specs import parse_app_handle

__all__ = ["LOOK_AGAIN_S", "LostAppError", "OutOfSightError", "began_elsewhere", "look_until"]

LOOK_AGAIN_S = 30.0
"""How long after a look for the app on a wrong host the next one is due, perhaps on the right one.

Not below `Deferral.not_before`'s 8 s, for the same reason: Airflow would fail the task.
"""
LOOK_FOR_S = 1800.0
"""How long to look where no lease says by when the app is over."""
ADVICE = "give the task a queue that the workers of one host serve"


def began_elsewhere(record: Record) -> bool:
    """Return whether an app that is not seen may run all the same, on the one host from which it is seen."""
    scheduler = parse_app_handle(record.handle).scheduler_backend
    return scheduler.startswith("local_") and record.host not in {"", gethostname()}


def look_until(record: Record, since: float) -> float:
    """Return when an app that was first not seen at `since` must be over; both in seconds since the epoch."""
    return since + (record.lease_s or LOOK_FOR_S)


class LostAppError(TorchXError):
    """The app was submitted and the scheduler does not know it any more."""

    def __init__(self, record: Record) -> None:
        """Name the app."""
        super().__init__(
            f"{_whereabouts(record)}; without a lease nobody can tell whether it still runs; {ADVICE},"
            " or clear the task to run it afresh"
        )


class OutOfSightError(TorchXError):
    """The app was submitted from another host, it seems, and a worker there may get this try yet."""

    def __init__(self, record: Record, until: float) -> None:
        """Name the app, its host and this one."""
        then = "its lease is over, and a new app is started" if record.lease_s else "the try gives up"
        super().__init__(
            f"{_whereabouts(record)}; looking again in {LOOK_AGAIN_S:g} s, perhaps there; in"
            f" {max(0.0, until - time()):.0f} s {then}; {ADVICE}"
        )


def _whereabouts(record: Record) -> str:
    return (
        f"{record.handle} was submitted on host {record.host or 'unknown'} by an earlier process of this"
        f" task, and is unknown on this one, {gethostname()}"
    )
