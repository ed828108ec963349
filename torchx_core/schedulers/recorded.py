"""What schedulers share that keep a directory per app: where it lies, who is listed, owned, forgotten."""

from __future__ import annotations

import builtins
import os
from abc import abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

from torchx_core.errors import (
    AppNotTerminalError,
    CorruptRecordError,
    NewerRecordError,
    SchedulerError,
    UnknownAppException,
)
from torchx_core.schedulers.locks import locked
from torchx_core.schedulers.ownership import owner_of, set_owner
from torchx_core.schedulers.paths import default_state_dir, file_name, name_of
from torchx_core.schedulers.removing import move_aside, remove_debris, remove_tree
from torchx_core.schedulers.responses import ListAppResponse
from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.schedulers.stored import StoredApp
from torchx_core.specs import AppState, is_terminal

__all__ = ["RecordedScheduler"]

T = TypeVar("T")
R = TypeVar("R", bound=StoredApp)

_DELETE_LOCK = ".lock"


class RecordedScheduler(Scheduler[T], Generic[T, R]):
    """Keeps its apps in ``STATE_DIR/BACKEND/SESSION/APP_ID``; a name that begins with a dot is no app."""

    def __init__(self, backend: str, session_name: str, *, state_dir: str | None = None) -> None:
        """Do no I/O.

        Args:
            backend: The name under which it is registered.
            session_name: Apps of one session are listed together.
            state_dir: Where records lie; None for ``$TORCHX_STATE_DIR`` or the XDG state directory.
        """
        super().__init__(backend, session_name)
        self._root = os.path.abspath(state_dir) if state_dir else default_state_dir()
        self._session_dir = os.path.join(self._root, backend, file_name(session_name))

    @abstractmethod
    def _read(self, directory: str) -> R | None:
        """Return the record in the directory, or None when there is none.

        Raises:
            CorruptRecordError: The directory is there, and its record cannot be read.
            NewerRecordError: A newer version of this library wrote it.
        """

    @abstractmethod
    def _state_of(self, record: R) -> AppState:
        """Look how the app stands."""

    @abstractmethod
    def _may_run(self, directory: str) -> bool:
        """Return whether the app may still run though its record is corrupt."""

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first; a record that cannot be read is UNKNOWN."""
        try:
            names = [n for n in os.listdir(self._session_dir) if not n.startswith(".")]
        except FileNotFoundError:
            return []
        rows = [row for name in names if (row := self._row(name))]
        return sorted(rows, key=lambda row: (row.submitted_at or 0.0, row.app_id))

    def _row(self, name: str) -> ListAppResponse | None:
        app_id = name_of(name)
        try:
            record = self._read(os.path.join(self._session_dir, name))
            if record is None:
                return None
            state = self._state_of(record)
        except FileNotFoundError:
            return None  # deleted while we look
        except (CorruptRecordError, NewerRecordError):
            return ListAppResponse(app_id=app_id, state=AppState.UNKNOWN)
        return ListAppResponse(app_id=app_id, state=state, name=record.name, submitted_at=record.created_at)

    def delete(self, app_id: str) -> None:
        """Forget a terminal app, also one whose record is corrupt, and its logs, wherever they lie.

        Record and logs are moved aside before anything is removed: the id is free at once, and what a new app
        of that id writes is never touched. One delete at a time looks and moves, so that none moves what
        another has freed and a submit has taken.

        Raises:
            AppNotTerminalError: The app is not terminal.
        """
        with suppress(FileNotFoundError):
            with locked(os.path.join(self._session_dir, _DELETE_LOCK)):
                aside = [move_aside(path) for path in self._doomed(app_id)]
            for path in aside:
                remove_tree(path)

    def _doomed(self, app_id: str) -> builtins.list[str]:
        """Return what to delete, logs first."""
        app_dir = self._app_dir(app_id)
        try:
            record = self._read(app_dir)
        except CorruptRecordError:
            if self._may_run(app_dir):
                raise
            return [app_dir]
        if record is None:
            return []
        state = self._state_of(record)
        if not is_terminal(state):
            raise AppNotTerminalError(self._handle(app_id), str(state), "delete")
        return [*filter(os.path.isdir, record.logs_elsewhere), app_dir]

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's record and logs."""
        record = self._read(self._app_dir(app_id))
        return 0 if record is None else record.size_bytes

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps as every scheduler does, and what killed submits and deletes left over."""
        remove_debris(self._session_dir)
        return super().prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)

    def owner(self, app_id: str) -> str | None:
        """Return the owner's token."""
        return owner_of(self._record(app_id))

    def take_over(self, app_id: str, token: str, *, expected: str | None = None, force: bool = False) -> bool:
        """Change the owner by compare-and-set.

        Raises:
            SchedulerError: The new owner cannot be written down; retryable.
        """
        try:
            return set_owner(self._record(app_id), token, expected, force=force)
        except FileNotFoundError as err:
            raise UnknownAppException(self._handle(app_id)) from err
        except OSError as err:
            raise SchedulerError(f"cannot take over {app_id}: {err.strerror}", retryable=True) from err

    def _record(self, app_id: str) -> R:
        record = self._read(self._app_dir(app_id))
        if record is None:
            raise UnknownAppException(self._handle(app_id))
        return record

    def _app_dir(self, app_id: str) -> str:
        return os.path.join(self._session_dir, file_name(app_id))

    def _handle(self, app_id: str) -> str:
        return f"{self.backend}://{self.session_name}/{app_id}"
