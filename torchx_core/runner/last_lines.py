"""Lets a status read what its replicas printed last, when somebody asks why the app failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, final

from torchx_core.errors import TorchXError
from torchx_core.specs import AppHandle, AppState, AppStatus, LastLines, ReplicaStatus, parse_app_handle

if TYPE_CHECKING:
    from torchx_core.runner.runner import Runner

__all__ = ["attach_last_lines"]


def attach_last_lines(
    new_runner: Callable[[], Runner], app_handle: AppHandle, status: AppStatus
) -> AppStatus:
    """Return the status; that of an app which did not succeed reads last lines from now on.

    Args:
        new_runner: Returns a runner that nobody else uses, and may close.
        app_handle: The app.
        status: Its status.
    """
    if status.is_terminal() and status.state is not AppState.SUCCEEDED:
        status.last_lines = _Reader(new_runner, app_handle)
    return status


@final
class _Reader:
    """Reads each replica's last lines once; why it cannot must not hide why the app failed."""

    def __init__(self, new_runner: Callable[[], Runner], app_handle: AppHandle) -> None:
        self._new_runner = new_runner
        self._app = parse_app_handle(app_handle)
        self._known: dict[tuple[str, int], LastLines] = {}

    def __call__(self, replica: ReplicaStatus) -> LastLines:
        key = (replica.role, replica.id)
        if key not in self._known:
            self._known[key] = self._read(replica)
        return self._known[key]

    def _read(self, replica: ReplicaStatus) -> LastLines:
        app = self._app
        try:
            with self._new_runner() as runner:
                backend = runner.scheduler(app.scheduler_backend, app.session_name)
                found = backend.last_lines(app.app_id, replica)
        except (TorchXError, OSError):
            return LastLines((), ())
        return LastLines(*map(_as_shown, found))


def _as_shown(lines: Iterable[str]) -> list[str]:
    from torchx_core.display.text import as_shown  # here: only a failure needs it

    return list(map(as_shown, lines))
