"""What schedulers share that keep a directory per app: where it lies, who is listed, owned, forgotten."""

from __future__ import annotations

import builtins
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Generic, TypeVar

from torchx_core.errors import (
    AppNotTerminalError,
    CorruptRecordError,
    NewerRecordError,
    RecordUnavailableError,
    SchedulerError,
    StoredStateError,
    TorchXError,
    UnknownAppException,
)
from torchx_core.schedulers.ended import DirectoryVersion, EndedApps, directory_version
from torchx_core.schedulers.locks import locked_session
from torchx_core.schedulers.option_values import retention
from torchx_core.schedulers.ownership import owner_of, set_owner
from torchx_core.schedulers.paths import check_owner, check_readable, file_name, name_of, state_root
from torchx_core.schedulers.removing import move_aside, remove_debris, remove_tree, tree_size
from torchx_core.schedulers.responses import DescribeAppResponse, Finding, ListAppResponse, Verdict
from torchx_core.schedulers.scheduler import Scheduler
from torchx_core.schedulers.stored import StoredApp, clear_debris, is_debris, names_in, naming_damage
from torchx_core.specs import AppState, AppStatus, CfgVal, is_terminal

__all__ = ["RecordedScheduler"]

T = TypeVar("T")
R = TypeVar("R", bound=StoredApp)


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
        self._root = state_root(state_dir)
        self._session_dir = os.path.join(self._root, backend, file_name(session_name))

    @abstractmethod
    def _read(self, directory: str) -> R | None:
        """Return the record in the directory, or None when there is none.

        Raises:
            CorruptRecordError: The directory is there, and its record cannot be read.
            NewerRecordError: A newer version of this library wrote it.
        """

    @abstractmethod
    def _status_of(self, record: R) -> AppStatus:
        """Look how the app and each of its replicas stand."""

    @abstractmethod
    def _state_of(self, record: R) -> AppState:
        """Look how the app stands."""

    @abstractmethod
    def _may_run(self, directory: str) -> bool:
        """Return whether the app may still run though its record cannot be used."""

    @abstractmethod
    def _end_by_force(self, directory: str) -> None:
        """End whatever runs of an app whose record cannot be used."""

    @abstractmethod
    def _end_orphans(self, directory: str) -> None:
        """End, as it was asked to end, an app whose record was deleted by hand while it ran.

        Raises:
            SubmitFailedError: That takes longer than a submit can wait.
        """

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what was submitted and how it stands, or None when there is no such app."""
        with suppress(FileNotFoundError):  # deleted while we look
            record = self._find(app_id)
            if record is not None:
                return DescribeAppResponse.of(app_id, record.decode_app(), self._status_of(record))
        return None

    def status(self, app_id: str) -> AppStatus | None:
        """Return how the app stands, without decoding what was submitted; None when there is no such app."""
        with suppress(FileNotFoundError):  # deleted while we look
            record = self._find(app_id)
            return None if record is None else self._status_of(record)
        return None

    def list(self) -> list[ListAppResponse]:
        """Return the apps of the session, oldest first; one whose record cannot be read is UNKNOWN."""
        return self.select()

    def select(
        self, *, newest: int | None = None, begins: str = "", live: bool = False
    ) -> builtins.list[ListAppResponse]:
        """Return the apps that meet every condition, oldest first; see `Runner.list`.

        Each directory is looked at once. A record is read while the app may run, and once after its end.
        """
        check_readable(self._session_dir)
        versions = self._versions()
        ended = EndedApps(self._session_dir)
        unknown = [name for name, version in versions.items() if not ended.has(name, version)]
        unknown = [name for name in unknown if name_of(name).startswith(begins)]
        self._prefetch(unknown)
        found = [row for name in unknown if (row := self._row(name, versions[name], ended))]
        if live:
            found = [row for row in found if not is_terminal(row.state)]
        else:
            known = (name for name in ended.newest_first() if ended.has(name, versions.get(name)))
            rows = (self._row(n, versions[n], ended) for n in known if name_of(n).startswith(begins))
            found += islice(filter(None, rows), newest)
        ended.save(versions, len(versions))
        found.sort(key=lambda row: (row.submitted_at or 0.0, row.app_id))
        return found[-newest:] if newest else found

    def _prefetch(self, names: builtins.list[str]) -> None:
        """Ask about the apps in the directories of these names, where a backend can tell of many at once."""

    def sessions(self) -> builtins.list[str]:
        """Return the sessions that have a directory of records."""
        backend_dir = os.path.dirname(self._session_dir)
        check_readable(backend_dir)
        return sorted(map(name_of, names_in(backend_dir)))

    def _versions(self) -> dict[str, DirectoryVersion | None]:
        """Return the directories of the session's apps as they are now; none if there is no such session."""
        with naming_damage(self._session_dir):
            try:
                with os.scandir(self._session_dir) as entries:
                    return {e.name: directory_version(e) for e in entries if not e.name.startswith(".")}
            except (FileNotFoundError, NotADirectoryError):
                return {}

    def _damaged(self) -> Iterator[Finding]:
        """Yield a finding for each app of the session whose record cannot be used."""
        with suppress(RecordUnavailableError):
            for name in sorted(names_in(self._session_dir)):
                try:
                    self._read(os.path.join(self._session_dir, name))
                except (StoredStateError, RecordUnavailableError) as err:
                    yield Finding(subject=name_of(name), verdict=Verdict.WARNING, text=str(err))

    def _row(self, name: str, version: DirectoryVersion | None, ended: EndedApps) -> ListAppResponse | None:
        """Return what a list says of the app in that version of the directory; None if there is none now."""
        app_id, directory = name_of(name), os.path.join(self._session_dir, name)
        if known := ended.find(name, version):
            return known
        try:
            record = self._read(directory)
            if record is None:
                return None
            state = self._state_of(record)
        except FileNotFoundError:
            return None  # deleted while we look
        except (StoredStateError, SchedulerError) as err:
            return ListAppResponse(app_id=app_id, state=AppState.UNKNOWN, error=str(err))
        row = ListAppResponse(app_id=app_id, state=state, name=record.name, submitted_at=record.created_at)
        ended.note(name, version, row)
        return row

    def delete(self, app_id: str, *, force: bool = False) -> None:
        """Forget a terminal app, also one whose record is damaged, and its logs, wherever they lie.

        Record and logs are moved aside before anything is removed: the id is free at once, and what a new app
        of that id writes is never touched. One delete at a time looks and moves, so that none moves what
        another has freed and a submit has taken.

        Args:
            app_id: The app.
            force: End what may still run of an app whose record is damaged, or of a newer version.

        Raises:
            AppNotTerminalError: The app is not terminal.
            StoredStateError: The app's record cannot be used, and it may still run.
        """
        check_owner(self._session_dir)
        with naming_damage(self._app_dir(app_id)), suppress(FileNotFoundError):
            with locked_session(self._session_dir):
                aside = [move_aside(path) for path in self._doomed(app_id, force=force)]
            for path in aside:
                remove_tree(path)

    def _doomed(self, app_id: str, *, force: bool) -> builtins.list[str]:
        """Return what to delete, logs first."""
        app_dir = self._app_dir(app_id)
        try:
            record = self._read(app_dir)
            if record is None:
                return []
            state = self._state_of(record)
            elsewhere = record.logs_elsewhere
        except (NewerRecordError, RecordUnavailableError):  # a bad disk may never read it again
            if not force:
                raise
        except CorruptRecordError:
            if not force and self._may_run(app_dir):
                raise
        else:
            if not is_terminal(state):
                raise AppNotTerminalError(self._handle(app_id), str(state), "delete")
            return [*filter(os.path.isdir, elsewhere), app_dir]
        if force:
            self._end_by_force(app_dir)
        return [app_dir]

    def _for_submit(self, app_dir: str, cfg: Mapping[str, CfgVal]) -> R | None:
        """Return the record that a submit finds, having cleared away a directory without any.

        Raises:
            SubmitFailedError: An app whose record was deleted by hand still runs there.
            InvalidConfigError: There is none, and the state directory is not this user's alone; or
                ``TORCHX_RETENTION`` is wrong.
            InvalidRunConfigException: The option ``retention`` is.
        """
        retention(cfg)  # what is wrong with it is told before anything is submitted
        check_readable(self._session_dir)
        while is_debris(app_dir):
            check_owner(self._session_dir)
            self._end_orphans(app_dir)
            clear_debris(app_dir)
        record = self._read(app_dir)
        if record is None:
            check_owner(self._session_dir)
        return record

    def _forget_old(self, cfg: Mapping[str, CfgVal]) -> None:
        """Delete ended apps that are old, or too much, now and then; no submit fails for that.

        Logs that the user wanted elsewhere are the user's to delete, and their app with them.
        """
        from torchx_core.schedulers.retention import MOST, overdue  # here: most commands submit nothing

        keep = retention(cfg)
        with suppress(TorchXError, OSError):
            names = overdue(self._session_dir, keep) if keep else ()
            for name in islice(filter(self._has_its_logs, names), MOST):
                self.delete(name_of(name))

    def _has_its_logs(self, name: str) -> bool:
        try:
            record = self._read(os.path.join(self._session_dir, name))
        except (StoredStateError, RecordUnavailableError):
            return False  # somebody should look at it
        return record is not None and not record.logs_elsewhere

    def size_bytes(self, app_id: str) -> int:
        """Return the size of the app's record and logs."""
        app_dir = self._app_dir(app_id)
        try:
            record = self._read(app_dir)
            size = 0 if record is None else record.size_bytes
        except (StoredStateError, RecordUnavailableError):
            size = tree_size(app_dir)
        return size

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps as every scheduler does, and what killed submits and deletes left over."""
        check_owner(self._session_dir)
        with naming_damage(self._session_dir):
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

    def _find(self, app_id: str) -> R | None:
        """Return the app's record, or None when there is no such app.

        Only where there is none, or it cannot be read, are the directories around it looked at: whether this
        user may look into them says better what is wrong.
        """
        try:
            record = self._read(self._app_dir(app_id))
        except TorchXError:
            check_readable(self._session_dir)
            raise
        if record is None:
            check_readable(self._session_dir)
        return record

    def _record(self, app_id: str) -> R:
        record = self._find(app_id)
        if record is None:
            raise UnknownAppException(self._handle(app_id))
        return record

    def _app_dir(self, app_id: str) -> str:
        return os.path.join(self._session_dir, file_name(app_id))
