"""Makes a try the owner of an app, by the owner's token that the core keeps. Knows no Airflow.

Two processes may believe that they run the same task: one that was given up and does not know it, and one
that came after it. The newer try wins, and what the older one still does to the app has no effect.
"""

from __future__ import annotations

from airflow_torchx._tries import TaskTry, try_number_of, was_given_up
from torchx_core.errors import TorchXError
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle

__all__ = ["NotSubmittedError", "OvertakenError", "check_owner", "sign", "sign_off"]

TRIES = 3


class OvertakenError(TorchXError):
    """A newer try of the task has the app."""

    def __init__(self, handle: str, owner: str) -> None:
        """Name the app and who has it."""
        super().__init__(f"{handle} belongs to a newer try of this task, {owner}; this try leaves it alone")


class NotSubmittedError(TorchXError):
    """The try has given its app up before there was one."""

    def __init__(self, handle: AppHandle, reason: str) -> None:
        """Name the app, and say why it is not wanted any more."""
        super().__init__(f"{handle} was not submitted: {reason}")


def sign(runner: Runner, handle: AppHandle, this_try: TaskTry) -> bool:
    """Make the try the app's owner.

    Returns:
        False when a try has given the app up, which stays so: it ends, and nobody may go on with it.

    Raises:
        OvertakenError: A newer try has it.
        UnknownAppException: There is no such app.
    """
    return _sign(runner, handle, this_try, this_try.token)


def sign_off(runner: Runner, handle: AppHandle, this_try: TaskTry) -> None:
    """Have the try give the app up, before it cancels it; raises as `sign` does.

    A retry that begins before the app has ended would otherwise go on with it, and fail with it.
    """
    _sign(runner, handle, this_try, this_try.cancelled_token)


def check_owner(runner: Runner, handle: AppHandle, this_try: TaskTry) -> str | None:
    """Return who owns the app.

    Raises:
        OvertakenError: A newer try.
        UnknownAppException: There is no such app.
    """
    owner = runner.owner(handle)
    if try_number_of(owner) > this_try.number:
        raise OvertakenError(handle, str(owner))
    return owner


def _sign(runner: Runner, handle: AppHandle, this_try: TaskTry, token: str) -> bool:
    for _ in range(TRIES):
        owner = check_owner(runner, handle, this_try)
        if was_given_up(owner):
            return False
        if runner.take_over(handle, token, expected=owner):
            return True
    raise OvertakenError(handle, str(runner.owner(handle)))
