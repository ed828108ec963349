"""What the program's exit code says."""

from __future__ import annotations

from enum import IntEnum

from torchx_core.errors import (
    InvalidInputError,
    NotFoundError,
    SchedulerError,
    StoredStateError,
    TorchXError,
    WaitTimeoutError,
)
from torchx_core.specs import AppState, AppStatus
from torchx_core.supervisor.signals import signal_number

__all__ = ["ExitCode", "code_of_error", "code_of_signal", "code_of_status"]

_LARGEST = 255


class ExitCode(IntEnum):
    """Codes of the program's own; a failed app's exit code is passed on as it is."""

    SUCCESS = 0
    """Done; of a followed app: it SUCCEEDED."""
    FAILURE = 1
    """A followed app FAILED and its backend knows no exit code; `doctor` found a problem; not confirmed."""
    BAD_INPUT = 2
    """The command line, an app, a cfg or a configuration file is wrong."""
    NOT_FOUND = 3
    """No such app, scheduler, role, replica or component."""
    SCHEDULER_FAILED = 4
    """The world outside failed: a full disk, no Docker, a submit whose outcome is unknown."""
    UNUSABLE_RECORD = 5
    """A stored record is corrupt, or a newer version wrote it."""
    BUG = 70
    """Something nobody foresaw; ``--debug`` shows where."""
    TIMEOUT = 124
    """``--timeout`` is over; the app goes on."""
    CANCELLED = 125
    """A followed app ended CANCELLED, whoever cancelled it."""
    SIGNAL = 128
    """Plus a signal's number: it killed the failed replica, or it made us leave while the app goes on."""


_OF_ERRORS: tuple[tuple[type[TorchXError], ExitCode], ...] = (
    (InvalidInputError, ExitCode.BAD_INPUT),
    (NotFoundError, ExitCode.NOT_FOUND),
    (SchedulerError, ExitCode.SCHEDULER_FAILED),
    (StoredStateError, ExitCode.UNUSABLE_RECORD),
    (WaitTimeoutError, ExitCode.TIMEOUT),
)


def code_of_error(error: TorchXError) -> int:
    """Return the exit code for an error, by its class."""
    return next((code for cls, code in _OF_ERRORS if isinstance(error, cls)), ExitCode.FAILURE)


def code_of_signal(number: int) -> int:
    """Return the exit code of what a signal ended, as shells have it."""
    return ExitCode.SIGNAL + number


def code_of_status(status: AppStatus) -> int:
    """Return the exit code for an app that ended: that of the replica which failed first.

    Example:
        >>> code_of_status(AppStatus(AppState.SUCCEEDED)) == ExitCode.SUCCESS
        True
    """
    if status.state is AppState.SUCCEEDED:
        return ExitCode.SUCCESS
    if status.state is AppState.CANCELLED:
        return ExitCode.CANCELLED
    for replica in status.failed_replicas():
        if replica.signal is not None:
            number = signal_number(replica.signal)
            return ExitCode.FAILURE if number is None else code_of_signal(number)
        if replica.exit_code:
            return replica.exit_code if 0 < replica.exit_code <= _LARGEST else ExitCode.FAILURE
    return ExitCode.FAILURE
