"""Records on disk, for backends whose apps outlive the process that submitted them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchx_core.compat.records import Content, Lock, Record, Store, oldest_first
from torchx_core.errors import CorruptRecordError, RecordUnavailableError
from torchx_core.schedulers.locks import is_locked, locked_session, open_lock, release
from torchx_core.schedulers.paths import check_owner, check_readable, file_name, make_private, name_of
from torchx_core.schedulers.stored import handle_of, is_debris, names_in, naming_damage, read_fact
from torchx_core.supervisor.reading import is_there
from torchx_core.supervisor.records import create

__all__ = ["DiskStore"]

VERSION = 1
_ASKED = "asked.json"


class DiskStore(Store):
    """One directory per app, one file per fact: ``<state dir>/<scheduler>/<session>/<app id>/<fact>.json``.

    A directory appears whole, by a rename; a fact appears whole, by a link. So the first one wins, and no
    reader ever sees half of anything.
    """

    def __init__(self, state_dir: str, backend: str, session_name: str) -> None:
        self._root = Path(state_dir)
        self._directory = Path(state_dir, backend, file_name(session_name))

    def create(self, app_id: str, asked: Content) -> Record:
        """Return the app's record; a new one where there was none."""
        self._check_readable()
        place = self._directory / file_name(app_id)
        if not DiskRecord(place, app_id).is_there():
            self._check_place()
        make_private(str(self._directory))
        self._clear_debris(place)
        fresh = self._hidden("new")
        fresh.mkdir(mode=0o700)
        try:
            DiskRecord(fresh, app_id).put("asked", asked)
            with suppress(OSError):  # it is there already: a directory with files in it is not replaced
                fresh.rename(place)
            _sync(self._directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return DiskRecord(place, app_id)

    def find(self, app_id: str) -> Record | None:
        """Return the app's record, or None."""
        self._check_readable()
        place = self._directory / file_name(app_id)
        record = DiskRecord(place, app_id)
        return record if record.is_there() or is_debris(str(place), _ASKED) else None

    def all(self) -> list[Record]:
        """Return every record, oldest first."""
        self._check_readable()
        found = (self._found(name) for name in names_in(str(self._directory)))
        return sorted((record for record in found if record is not None), key=oldest_first)

    def _found(self, name: str) -> Record | None:
        place = self._directory / name
        record = DiskRecord(place, name_of(name))
        try:
            there = record.is_there() or is_debris(str(place), _ASKED)
        except RecordUnavailableError:
            there = True  # whoever reads it says so
        return record if there else None

    def remove(self, record: Record) -> None:
        """Forget the app: moved aside first, so that its id is free at once."""
        aside = self._hidden("deleted")
        with suppress(FileNotFoundError):
            (self._directory / file_name(record.app_id)).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    def _check_place(self) -> None:
        for directory in self._places():
            check_owner(directory)

    def _check_readable(self) -> None:
        for directory in self._places():
            check_readable(directory)

    def _places(self) -> tuple[str, str, str]:
        return str(self._root), str(self._directory.parent), str(self._directory)

    def _clear_debris(self, place: Path) -> None:
        """Move aside a directory without the fact that makes it an app's: somebody deleted that by hand."""
        if is_debris(str(place), _ASKED):
            with locked_session(str(self._directory)):
                if is_debris(str(place), _ASKED):  # else another submit did it
                    aside = self._hidden("deleted")
                    place.rename(aside)
                    shutil.rmtree(aside, ignore_errors=True)

    def _hidden(self, what: str) -> Path:
        return self._directory / f".{what}-{os.urandom(6).hex()}"


class DiskRecord(Record):
    """One app's facts on disk."""

    def __init__(self, directory: Path, app_id: str) -> None:
        super().__init__(app_id)
        self._directory = directory

    def is_there(self) -> bool:
        """Return whether the first fact has been told.

        Raises:
            RecordUnavailableError: Nobody can tell just now.
        """
        with naming_damage(str(self._directory)):
            return is_there(str(self._file("asked")))  # whatever it is: who reads it says so

    def get(self, fact: str) -> Content | None:
        """Return the fact, or None.

        Raises:
            CorruptRecordError: The file is not what was written.
            NewerRecordError: A newer version of this library wrote it.
        """
        content = read_fact(str(self._file(fact)), VERSION)
        if content is None and fact == "asked" and is_debris(str(self._directory), _ASKED):
            raise self.damage("is missing")
        return content

    def damage(self, problem: str) -> CorruptRecordError:
        """Return the error for a record that cannot be used."""
        return CorruptRecordError(str(self._file("asked")), problem, handle_of(str(self._directory)))

    def put(self, fact: str, content: Content) -> Content:
        """Tell the fact unless somebody was first, or the app was forgotten meanwhile."""
        try:
            draft = self._draft(content)
        except FileNotFoundError:
            return content
        try:
            os.link(draft, self._file(fact))
            _sync(self._directory)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return self.get(fact) or content

    def replace(self, fact: str, content: Content) -> None:
        """Tell the fact anew.

        Raises:
            CorruptRecordError: A directory lies in its place.
        """
        draft = self._draft(content)
        try:
            draft.rename(self._file(fact))
        except IsADirectoryError as err:
            draft.unlink()
            raise CorruptRecordError(
                str(self._file(fact)), "is no regular file", handle_of(str(self._directory))
            ) from err
        _sync(self._directory)

    @contextmanager
    def locked(self, lock: Lock) -> Generator[bool]:
        """Hold the lock; it goes with its process, however that dies.

        Raises:
            CorruptRecordError: Something else lies in its place.
        """
        try:
            with naming_damage(str(self._directory)):
                fd = open_lock(str(self._lock_file(lock)))
        except FileNotFoundError:
            yield False
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield self._is_mine(fd, lock)
        finally:
            release(fd)

    def is_locked(self, lock: Lock) -> bool:
        """Return whether somebody holds the lock."""
        try:
            with naming_damage(str(self._directory)):
                return is_locked(str(self._lock_file(lock)))
        except FileNotFoundError:
            return False

    def _is_mine(self, fd: int, lock: Lock) -> bool:
        """Return whether the directory was not removed, and made anew, while we waited for its lock."""
        try:
            return os.path.samestat(os.fstat(fd), self._lock_file(lock).stat()) and self.is_there()
        except FileNotFoundError:
            return False

    def _draft(self, content: Content) -> Path:
        draft = self._directory / f".draft-{os.urandom(6).hex()}"
        with os.fdopen(create(str(draft)), "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **content}, file)
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _file(self, fact: str) -> Path:
        return self._directory / f"{file_name(fact)}.json"

    def _lock_file(self, lock: Lock) -> Path:
        return self._directory / f"{lock}.lock"


def _sync(directory: Path) -> None:
    """Make names in the directory survive a crash of the host."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
