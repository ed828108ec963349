"""What the end of an app means for its flow run: a state, why, and the last lines that nobody has seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from prefect_torchx.worker.job import ROLE
from torchx_core.display.masking import Mask, make_mask
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppState, AppStatus

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

__all__ = ["Ending", "end_message", "exit_code", "judge", "mask_of", "read_last_lines", "unsent"]

FAILED = 1
"""Exit code of an app whose replica left none."""
LINES: Final = 50
_BEFORE_MESSAGE = " - "


class Ending(Enum):
    """What a flow run becomes whose app is over."""

    LEAVE = "the flow run has ended itself, or is to run again"
    CRASHED = "nobody else will end it"
    CANCELLED = "it was to be cancelled, and its app is gone"


def judge(state: State[Any] | None, *, retried_in_process: bool) -> Ending:
    """Decide what becomes of a flow run in that state.

    Args:
        state: The flow run's, read after its app had ended.
        retried_in_process: The flow run waits for a retry in the process that it had.
    """
    if state is None:
        return Ending.CRASHED
    if state.is_cancelling():
        return Ending.CANCELLED
    to_run_again = state.is_scheduled() and not retried_in_process
    suspended = state.is_paused() and bool(state.state_details.pause_reschedule)
    return Ending.LEAVE if state.is_final() or to_run_again or suspended else Ending.CRASHED


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


def read_last_lines(runner: Runner, handle: AppHandle) -> list[str]:
    """Return the app's last lines, its secrets hidden; none when they cannot be read any more."""
    try:
        app = runner.describe(handle)
        lines = deque(runner.log_lines(handle, ROLE), maxlen=LINES) if app else ()
    except TorchXError:
        return []
    mask = make_mask(app) if app else str
    return [mask(line.rstrip("\n")) for line in lines]


def mask_of(runner: Runner, handle: AppHandle) -> Mask:
    """Return what hides the app's secrets; where the app cannot be read any more, nothing of it is shown."""
    try:
        app = runner.describe(handle)
    except TorchXError:
        return lambda _: f"the app of this flow run cannot be read: {handle}"
    return make_mask(app) if app else str


def unsent(output: Iterable[str], messages: Iterable[str]) -> list[str]:
    """Return the lines that no message holds, in order, blank ones at either end left out.

    Args:
        output: Lines of the process.
        messages: What the server has in the log of the flow run.

    Example:
        >>> unsent(["09:00 | INFO | Flow run 'a' - hello", "Segmentation fault"], ["hello"])
        ['Segmentation fault']
    """
    sent = {line.rstrip() for message in messages for line in message.splitlines() if line.strip()}
    left = [line for line in output if not _is_sent(line.rstrip(), sent)]
    while left and not left[0].strip():
        del left[0]
    while left and not left[-1].strip():
        del left[-1]
    return left


def _is_sent(line: str, sent: set[str]) -> bool:
    if line in sent:
        return True
    start = line.find(_BEFORE_MESSAGE)
    while start >= 0:
        if line[start + len(_BEFORE_MESSAGE) :] in sent:
            return True
        start = line.find(_BEFORE_MESSAGE, start + 1)
    return False
