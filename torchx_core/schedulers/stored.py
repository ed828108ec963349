"""Records of apps on disk: written once, by a submitter, and read by everybody."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Final, Self, cast

from torchx_core.errors import (
    CorruptRecordError,
    InvalidAppError,
    NewerRecordError,
    RecordUnavailableError,
    TorchXError,
)
from torchx_core.schedulers.locks import locked, locked_session
from torchx_core.schedulers.paths import name_of
from torchx_core.schedulers.removing import move_aside, remove_tree, tree_size
from torchx_core.specs import AppDef
from torchx_core.supervisor.reading import NO_FILE, DamagedFile, is_damage, open_regular, read_object
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.shape import is_text, is_time

__all__ = [
    "StoredApp",
    "clear_debris",
    "handle_of",
    "is_debris",
    "names_in",
    "naming_damage",
    "read_fact",
]

SPEC: Final = "spec.json"
_MOST_KEPT: Final = 128
"""How many records this process keeps in memory, the latest read, for whoever asks again and again."""
_LASTING: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True)
class StoredApp(ABC):
    """What was submitted; never changes while the app exists."""

    VERSION: ClassVar[int] = 1
    """Of the records that are read; a newer one is refused."""

    directory: str
    content: Json

    @classmethod
    def read_from(cls, directory: str) -> Self | None:
        """Return the record in the directory, or None when there is no such app.

        It appears with its directory and may be deleted, with that, at any time.

        Raises:
            CorruptRecordError: The directory is there, and its record is not, or cannot be used.
            NewerRecordError: A newer version of this library wrote it.
        """
        with suppress(OSError, DamagedFile):  # reading it says better what is wrong
            inode, changed_ns = _look_at(os.path.join(directory, SPEC))
            return cast("Self", _read_again(cls, directory, inode, changed_ns))
        return cls.read_from_disk(directory)

    @classmethod
    def read_from_disk(cls, directory: str) -> Self | None:
        """Do the same, whether or not this process has read the record before."""
        path = os.path.join(directory, SPEC)
        with naming_damage(directory):
            content = read_object(path)
            if content is None and is_debris(directory):
                raise DamagedFile(path, "is missing")
            if content is not None:
                _check_version(content, path, cls.VERSION)
                _check(content, path)
        return None if content is None else cls(directory, content)

    @property
    def incarnation(self) -> str:
        """Unique among all apps that ever had this id."""
        return str(self.content["incarnation"])

    @property
    def created_at(self) -> float:
        """Seconds since the epoch."""
        return cast("float", self.content["created_at"])

    @property
    def asked(self) -> Json:
        """What makes two submits the same request: app and cfg, before anything was rendered."""
        return cast("Json", self.content["asked"])

    @property
    def name(self) -> str:
        """The app's name."""
        return str(cast("Json", self.asked["app"])["name"])

    @cached_property
    def app(self) -> AppDef:
        """The app as it was submitted; shared with whoever else reads the record, so it must not change.

        Raises:
            CorruptRecordError: It is none.
        """
        return self.decode_app()

    def decode_app(self) -> AppDef:
        """Return the app as it was submitted, for the caller alone.

        Raises:
            CorruptRecordError: It is none.
        """
        with self.naming_damage():
            try:
                return AppDef.from_dict(cast("Json", self.asked["app"]))
            except InvalidAppError as err:
                raise DamagedFile(self.directory, f"its app cannot be read: {err}") from err

    @property
    @abstractmethod
    def log_dirs(self) -> Iterable[str]:
        """Where each replica's logs lie."""

    @cached_property
    def logs_elsewhere(self) -> Sequence[str]:
        """The directory of all its logs, if that lies outside of the record (``log_dir``)."""
        logs = {os.path.dirname(os.path.dirname(path)) for path in self.log_dirs}
        return [path for path in logs if not path.startswith(self.directory + os.sep)]

    @property
    def size_bytes(self) -> int:
        """How much disk space record and logs take."""
        return sum(map(tree_size, [self.directory, *self.logs_elsewhere]))

    def naming_damage(self) -> AbstractContextManager[None]:
        """Tell damage of the app's files by CorruptRecordError."""
        return naming_damage(self.directory)

    @contextmanager
    def locked(self, name: str) -> Generator[None]:
        """Hold one of the app's locks for a moment, telling damage as `naming_damage` does."""
        with self.naming_damage(), locked(self.path(name)):
            yield

    def path(self, name: str) -> str:
        """Return the path of one of the app's files."""
        return os.path.join(self.directory, name)


def _look_at(path: str) -> tuple[int, int]:
    """Return what tells the file from another one; it is opened, since a file server is not asked without."""
    fd = open_regular(path)
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return found.st_ino, found.st_ctime_ns


@lru_cache(maxsize=_MOST_KEPT)
def _read_again(kind: type[StoredApp], directory: str, inode: int, changed_ns: int) -> StoredApp:  # noqa: ARG001  # they tell whether the file is the one that was read
    """Return the record as it was read before, as long as its file is the same and has not changed."""
    record = kind.read_from_disk(directory)
    if record is None:
        raise FileNotFoundError(directory)
    return record


def read_fact(path: str, version: int) -> Json | None:
    """Return another record of an app without its version, or None when there is none.

    Raises:
        CorruptRecordError: It cannot be used.
        NewerRecordError: A newer version of this library wrote it.
    """
    with naming_damage(os.path.dirname(path)):
        content = read_object(path)
        if content is not None:
            _check_version(content, path, version)
            del content["version"]
    return content


def _check_version(content: Json, path: str, version: int) -> None:
    found = content.get("version")
    if not isinstance(found, int):
        raise DamagedFile(path, "has no version")
    if found > version:
        raise NewerRecordError(path, found, version)


def _check(content: Json, path: str) -> None:
    asked = content.get("asked")
    app = cast("Json", asked).get("app") if isinstance(asked, dict) else None
    cfg = cast("Json", asked).get("cfg") if isinstance(asked, dict) else None
    wanted = {
        "incarnation": is_text(content.get("incarnation")),
        "created_at": is_time(content.get("created_at")),
        "asked": isinstance(app, dict) and isinstance(cfg, dict),
        "asked.app.name": isinstance(app, dict) and is_text(cast("Json", app).get("name")),
    }
    for field, good in wanted.items():
        if not good:
            raise DamagedFile(path, f"its field {field!r} is missing or is not what it should be")


def is_debris(directory: str, name: str = SPEC) -> bool:
    """Return whether the directory is there without the record that makes it an app's.

    A record appears and goes with its directory, so it was deleted by hand, under an app that perhaps runs.

    Raises:
        RecordUnavailableError: Nobody can tell just now.
    """
    with naming_damage(directory):
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as err:
            if isinstance(err, FileNotFoundError | NotADirectoryError) or is_damage(err):
                return False
            raise
        try:
            os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            with suppress(FileNotFoundError):  # a directory that was moved aside has lost its record rightly
                return os.path.samestat(os.fstat(fd), os.stat(directory))
        finally:
            os.close(fd)
    return False


def clear_debris(directory: str, name: str = SPEC) -> None:
    """Move aside, and remove, what `is_debris`; no error if another submit has done so."""
    with naming_damage(directory), suppress(FileNotFoundError):
        with locked_session(os.path.dirname(directory)):
            if not is_debris(directory, name):
                return
            aside = move_aside(directory)
        remove_tree(aside)


def names_in(session_dir: str) -> list[str]:
    """Return the directories of a session's apps; none if there is no such session.

    Raises:
        RecordUnavailableError: Nobody can tell just now.
    """
    with naming_damage(session_dir):
        try:
            return [name for name in os.listdir(session_dir) if not name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []


class naming_damage:  # noqa: N801  (a context manager, without what contextlib adds to the time of each look)
    """Tells damage of an app's files by the error that says so, with the handle by which to forget the app.

    Any other error of the system's, but that a file is absent, is told as one that may pass.
    """

    def __init__(self, directory: str) -> None:
        """Keep the app's directory."""
        self._directory = directory

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        """Raise the error that says it."""
        if isinstance(err, DamagedFile):
            raise CorruptRecordError(err.path, err.problem, handle_of(self._directory)) from err
        if isinstance(err, OSError) and not isinstance(err, FileNotFoundError | TorchXError):
            path = err.filename if isinstance(err.filename, str) else self._directory
            if err.errno in NO_FILE:
                raise CorruptRecordError(path, str(err.strerror), handle_of(self._directory)) from err
            passing = err.errno not in _LASTING
            raise RecordUnavailableError(path, err.strerror or str(err), retryable=passing) from err


def handle_of(directory: str) -> str:
    """Return the handle of the app whose record lies in the directory."""
    backend, session, app_id = directory.rsplit(os.sep, 3)[1:]
    return f"{backend}://{name_of(session)}/{name_of(app_id)}"
