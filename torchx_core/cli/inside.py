"""What the commands share that go inside a replica: which one, and what ends them."""

from __future__ import annotations

import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from torchx_core import Runner
from torchx_core.cli.exit_codes import code_of_signal
from torchx_core.errors import InvalidInputError, ReplicaNotRunningError, UnknownAppException
from torchx_core.specs import AppHandle, AppState, AppStatus

__all__ = ["leaving_on_signals", "parse_replica", "run_inside", "running_replicas"]


def parse_replica(text: str) -> tuple[str, int]:
    """Read ``ROLE/K``, or a role alone for its first replica.

    Raises:
        InvalidInputError: It is neither.

    Example:
        >>> parse_replica("trainer/3"), parse_replica("trainer")
        (('trainer', 3), ('trainer', 0))
    """
    role, slash, number = text.rpartition("/")
    if not slash:
        return text, 0
    if not role or not (number.isascii() and number.isdigit()):
        raise InvalidInputError(f"not a replica: {text!r}; expected ROLE/K, for example trainer/0")
    return role, int(number)


def running_replicas(runner: Runner, app_handle: AppHandle) -> list[tuple[str, int]]:
    """Return the replicas of an app that run, in their order.

    Raises:
        UnknownAppException: There is no such app.
        ReplicaNotRunningError: None of them does.
    """
    status = runner.status(app_handle)
    if status is None:
        raise UnknownAppException(app_handle)
    replicas = [replica for role in status.roles for replica in role.replicas]
    running = [(r.role, r.id) for r in replicas if r.state is AppState.RUNNING]
    if not running:
        role, k, state = _first(status)
        raise ReplicaNotRunningError(app_handle, role, k, state)
    return running


def _first(status: AppStatus) -> tuple[str, int, str]:
    replicas = [replica for role in status.roles for replica in role.replicas]
    return (
        (replicas[0].role, replicas[0].id, replicas[0].state.name) if replicas else ("", 0, status.state.name)
    )


def run_inside(runner: Runner, app_handle: AppHandle, replica: tuple[str, int], argv: Sequence[str]) -> int:
    """Run a command in a replica on our streams and return its exit code."""
    with leaving_on_signals():
        return runner.exec(app_handle, *replica, argv)


@contextmanager
def leaving_on_signals() -> Generator[None]:
    """Leave in good order when we are told to end or our window is closed: what has to be put back is."""

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(code_of_signal(signal.Signals(number)))

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
