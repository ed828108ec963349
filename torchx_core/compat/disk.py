"""Records on disk, for backends whose apps outlive the process that submitted them."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

from torchx_core.compat.records import Content, Lock, Record, Store, oldest_first
from torchx_core.errors import CorruptRecordError, RecordUnavailableError, SubmitFailedError
from torchx_core.schedulers.locks import is_locked, locked
from torchx_core.schedulers.paths import check_owner, check_readable, file_name, make_private, name_of
from torchx_core.schedulers.removing import fresh_path, move_aside, remove_tree, rename_unless_there
from torchx_core.schedulers.stored import (
    clear_debris,
    handle_of,
    is_debris,
    names_in,
    naming_damage,
    read_fact,
)
from torchx_core.supervisor.reading import is_there
from torchx_core.supervisor.records import replace_whole, sync_directory, write_once

__all__ = ["DiskStore"]

VERSION = 1
_ASKED = "asked.json"


class DiskStore(Store):
    """One directory per app, one file per fact: ``<state dir>/<scheduler>/<session>/<app id>/<fact>.json``.

    A directory appears whole, by a rename; a fact appears whole, by a link. So the first one wins, and no
    reader ever sees half of anything.
    """

    def __init__(self, state_dir: str, backend: str, session_name: str) -> None:
        self._directory = f"{state_dir}/{backend}/{file_name(session_name)}"

    def create(self, app_id: str, asked: Content) -> Record:
        """Return the app's record; a new one where there was none.

        Raises:
            SubmitFailedError: There is no room for it, or something else in its place; nothing is left.
        """
        check_readable(self._directory)
        record = self._record(file_name(app_id))
        if not record.is_there():
            check_owner(self._directory)
        fresh = fresh_path(self._directory)
        try:
            make_private(fresh)
            if is_debris(record.directory, _ASKED):  # its first fact was deleted by hand
                clear_debris(record.directory, _ASKED)
            write_once(fresh, _ASKED, _content(asked), durable=True)
            rename_unless_there(fresh, record.directory)
            sync_directory(self._directory)
        except OSError as err:
            problem = f"cannot create app {app_id!r} in {self._directory}: {err}"
            raise SubmitFailedError(problem, retryable=True) from err
        finally:
            remove_tree(fresh)
        return record

    def find(self, app_id: str) -> Record | None:
        """Return the app's record, or None."""
        check_readable(self._directory)
        record = self._record(file_name(app_id))
        return record if record.is_there() or is_debris(record.directory, _ASKED) else None

    def all(self) -> list[Record]:
        """Return every record, oldest first."""
        check_readable(self._directory)
        records = map(self._record, names_in(self._directory))
        return sorted((record for record in records if _may_be_there(record)), key=oldest_first)

    def sessions(self) -> list[str]:
        """Return the sessions that have a directory of records."""
        backend_dir = os.path.dirname(self._directory)
        check_readable(backend_dir)
        return sorted(map(name_of, names_in(backend_dir)))

    def remove(self, record: Record) -> None:
        """Forget the app: moved aside first, so that its id is free at once."""
        with suppress(FileNotFoundError):
            remove_tree(move_aside(self._record(file_name(record.app_id)).directory))

    def _record(self, name: str) -> DiskRecord:
        return DiskRecord(f"{self._directory}/{name}", name_of(name))


class DiskRecord(Record):
    """One app's facts on disk."""

    def __init__(self, directory: str, app_id: str) -> None:
        super().__init__(app_id)
        self.directory = directory

    def is_there(self) -> bool:
        """Return whether the first fact has been told.

        Raises:
            RecordUnavailableError: Nobody can tell just now.
        """
        with naming_damage(self.directory):
            return is_there(self._path(_ASKED))  # whatever it is: who reads it says so

    def get(self, fact: str) -> Content | None:
        """Return the fact, or None.

        Raises:
            CorruptRecordError: The file is not what was written.
            NewerRecordError: A newer version of this library wrote it.
        """
        content = read_fact(self._path(_file(fact)), VERSION)
        if content is None and fact == "asked" and is_debris(self.directory, _ASKED):
            raise self.damage("is missing")
        return content

    def damage(self, problem: str) -> CorruptRecordError:
        """Return the error for a record that cannot be used."""
        return CorruptRecordError(self._path(_ASKED), problem, handle_of(self.directory))

    def put(self, fact: str, content: Content) -> Content:
        """Tell the fact unless somebody was first, or the app was forgotten meanwhile."""
        told = self.get(fact)  # whoever looks tells what he sees: mostly what was told long ago
        if told is not None:
            return told
        try:
            write_once(self.directory, _file(fact), _content(content), durable=True)
        except FileNotFoundError:
            return content
        return self.get(fact) or content

    def replace(self, fact: str, content: Content) -> None:
        """Tell the fact anew.

        Raises:
            CorruptRecordError: A directory lies in its place.
        """
        with naming_damage(self.directory):
            replace_whole(self.directory, _file(fact), _content(content), durable=True)

    @contextmanager
    def locked(self, lock: Lock) -> Generator[bool]:
        """Hold the lock; it goes with its process, however that dies.

        Raises:
            CorruptRecordError: Something else lies in its place.
        """
        path = self._path(f"{lock}.lock")
        with ExitStack() as stack:
            try:
                with naming_damage(self.directory):
                    fd = stack.enter_context(locked(path))
                is_mine = os.path.samestat(os.fstat(fd), os.stat(path)) and self.is_there()
            except FileNotFoundError:  # the directory was removed, and perhaps made anew, while we waited
                is_mine = False
            yield is_mine

    def is_locked(self, lock: Lock) -> bool:
        """Return whether somebody holds the lock."""
        with suppress(FileNotFoundError), naming_damage(self.directory):
            return is_locked(self._path(f"{lock}.lock"))
        return False

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"


def _may_be_there(record: DiskRecord) -> bool:
    try:
        return record.is_there() or is_debris(record.directory, _ASKED)
    except RecordUnavailableError:
        return True  # whoever reads it says so


def _file(fact: str) -> str:
    return f"{file_name(fact)}.json"


def _content(fact: Content) -> dict[str, object]:
    return {"version": VERSION, **fact}
