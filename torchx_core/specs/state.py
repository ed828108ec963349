"""The states of an app and of its replicas."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

__all__ = ["AppState", "ReplicaState", "is_started", "is_terminal"]


class AppState(int, Enum):
    """Where an app (or a replica) is between submission and its end.

    The values are TorchX's; they are stored, so they never change.
    """

    UNSUBMITTED = 0
    """Described, not handed to a scheduler yet."""
    SUBMITTED = 1
    """The scheduler has the request and has not looked at it yet."""
    PENDING = 2
    """Waiting for resources, or between two attempts."""
    RUNNING = 3
    """Started and not over."""
    SUCCEEDED = 4
    """Over, everything exited with 0."""
    FAILED = 5
    """Over, something went wrong for good."""
    CANCELLED = 6
    """Over because somebody, a deadline or a lease ended it."""
    UNKNOWN = 7
    """The backend cannot tell; neither terminal nor started."""

    def __str__(self) -> str:
        """Return the name, for example ``RUNNING``."""
        return self.name

    def __repr__(self) -> str:
        """Return name and number, for example ``RUNNING (3)``."""
        return f"{self.name} ({self.value})"


ReplicaState: TypeAlias = AppState

_TERMINAL = frozenset({AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED})
_STARTED = _TERMINAL | {AppState.RUNNING}


def is_terminal(state: AppState) -> bool:
    """Return whether the state is final."""
    return state in _TERMINAL


def is_started(state: AppState) -> bool:
    """Return whether the app runs or has ended; a cancelled app counts although it may never have run."""
    return state in _STARTED
