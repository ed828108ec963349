"""What the end of an app means for its flow run; pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from torchx_core.specs import AppHandle, AppState, AppStatus

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

__all__ = ["Verdict", "end_message", "exit_code", "judge"]

FAILED = 1
"""Exit code of an app whose replica left none."""


class Verdict(Enum):
    """What a flow run becomes whose app is over."""

    LEAVE = "the flow run has ended itself, or is to run again"
    CRASHED = "nobody else will end it"
    CANCELLED = "it was to be cancelled, and its app is gone"


def judge(state: State[Any] | None, *, retried_in_process: bool) -> Verdict:
    """Decide what becomes of a flow run in that state.

    Args:
        state: The flow run's, read after its app had ended.
        retried_in_process: The flow run waits for a retry in the process that it had.
    """
    if state is None:
        return Verdict.CRASHED
    if state.is_cancelling():
        return Verdict.CANCELLED
    to_run_again = state.is_scheduled() and not retried_in_process
    suspended = state.is_paused() and bool(state.state_details.pause_reschedule)
    return Verdict.LEAVE if state.is_final() or to_run_again or suspended else Verdict.CRASHED


def end_message(status: AppStatus | None, handle: AppHandle) -> str:
    """Return why the flow run crashed, for its state's message.

    Args:
        status: How the app ended; None when there is no such app any more.
        handle: The app.
    """
    if status is None:
        return f"the app of this flow run is gone: {handle}; it was deleted, or its host was replaced"
    if status.state is AppState.SUCCEEDED:
        return f"the flow run's process exited well, but left its flow run unfinished\n  app: {handle}"
    return f"{status.failure_summary()}\n  app: {handle}"


def exit_code(status: AppStatus | None) -> int:
    """Return the exit code that stands for the app's end; 0 only when it succeeded."""
    if status is not None and status.state is AppState.SUCCEEDED:
        return 0
    failed = status.failed_replicas() if status else []
    return next((replica.exit_code for replica in failed if replica.exit_code), FAILED)
