"""What the end of an app means for its flow run: a state, why, and the last lines that nobody has seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from prefect_torchx.worker.job import ROLE
from torchx_core.display.masking import Mask, make_mask, mask_status
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner
from torchx_core.schedulers.secrets import MASK, mask_value, secret_parts
from torchx_core.specs import NONE, AppHandle, AppState, AppStatus, RoleStatus

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

    from prefect_torchx.worker.job import TorchXJobConfiguration

__all__ = [
    "Ending",
    "end_message",
    "exit_code",
    "judge",
    "mask_of",
    "read_last_lines",
    "unsent",
    "without_words",
]

FAILED = 1
"""Exit code of an app whose replica left none."""
LINES: Final = 50
_BEFORE_MESSAGE = " - "


class Ending(Enum):
    """What a flow run becomes whose app is over."""

    LEAVE = "the flow run has ended itself, or is to run again"
    CRASHED = "nobody else will end it"
    CANCELLED = "it was to be cancelled, and its app is gone"


def judge(state: State | None, *, retried_in_process: bool) -> Ending:
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


def end_message(status: AppStatus | None, handle: AppHandle, mask: Mask | None) -> str:
    """Return why the flow run crashed, for its state's message; may ask the scheduler for last lines.

    Args:
        status: How the app ended; None when there is no such app any more.
        handle: The app.
        mask: Hides its secrets; None where not all are known: then nothing of what it says is told.
    """
    if status is None:
        return f"the app of this flow run is gone: {handle}; it was deleted, or its host was replaced"
    if status.state is AppState.SUCCEEDED:
        return f"the flow run's process exited well, but left its flow run unfinished\n  app: {handle}"
    told = mask_status(status, mask) if mask else without_words(status)
    return f"{told.failure_summary()}\n  app: {handle}"


def exit_code(status: AppStatus | None) -> int:
    """Return the exit code that stands for the app's end; 0 only when it succeeded."""
    if status is not None and status.state is AppState.SUCCEEDED:
        return 0
    failed = status.failed_replicas() if status else []
    return next((replica.exit_code for replica in failed if replica.exit_code), FAILED)


def without_words(status: AppStatus) -> AppStatus:
    """Return the status without what the program itself has said in it."""
    roles = [
        RoleStatus(role.role, [replace(replica, structured_error_msg=NONE) for replica in role.replicas])
        for role in status.roles
    ]
    return replace(status, structured_error_msg=NONE, result=None, roles=roles)


def read_last_lines(runner: Runner, handle: AppHandle) -> list[str]:
    """Return the app's last lines, secrets and all; none when they cannot be read any more."""
    try:
        lines = deque(runner.log_lines(handle, ROLE), maxlen=LINES) if runner.describe(handle) else ()
    except TorchXError:
        return []
    return [line.rstrip("\n") for line in lines]


def mask_of(runner: Runner, handle: AppHandle, job: TorchXJobConfiguration | None) -> Mask | None:
    """Return what hides the app's secrets; None where not all are known here: what it says is not shown then.

    Args:
        runner: Knows the app's scheduler, which may tell no secrets: the job has their values.
        handle: The app; nothing is hidden of one that is gone.
        job: What the app was made of; None where nobody knows any more.
    """
    try:
        app = runner.describe(handle)
    except TorchXError:
        return None
    if app is None:
        return str
    given = job.env if job else {}
    hidden: list[str] = []
    for name, shown in (variable for role in app.roles for variable in role.env.items()):
        if MASK in shown:
            value = given.get(name) or ""
            if mask_value(name, value) != shown or not value:
                return None
            hidden += secret_parts(name, value)
    return make_mask(app, [*hidden, *(job.option_secrets() if job else ())])


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
