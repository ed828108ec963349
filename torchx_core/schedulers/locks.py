"""Locks between processes, which end with whoever held them."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

from torchx_core.errors import CorruptRecordError
from torchx_core.supervisor.reading import DamagedFile, open_regular
from torchx_core.supervisor.records import open_or_create

__all__ = ["is_locked", "locked", "locked_session", "release"]

_SESSION_LOCK = ".lock"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def locked(path: str) -> Generator[int]:
    """Hold an exclusive lock for a moment, and yield its descriptor; waits for whoever has it.

    Raises:
        DamagedFile: Something else lies in its place.
    """
    fd = open_or_create(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        release(fd)


def is_locked(path: str) -> bool:
    """Return whether somebody holds the lock of this file.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFile: Something else lies in its place.
    """
    fd = open_regular(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask do not see each other
    except BlockingIOError:
        return True
    finally:
        release(fd)
    return False


def release(fd: int) -> None:
    """Give a lock back and close its file.

    To close it is not enough: what another thread has forked meanwhile has the file open as well, and with it
    the lock, for as long as it lives.
    """
    with suppress(OSError):  # of a file system without locks
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


@contextmanager
def locked_session(session_dir: str) -> Generator[None]:
    """Hold the session's lock for moving directories of apps aside.

    The directory itself is locked, and a file in it, because a file server may not lock directories. Where
    there is no room for that file the directory's lock will do: whoever deletes may be about to make room.

    Raises:
        CorruptRecordError: Something else lies in its place.
    """
    with ExitStack() as stack:
        is_held = _lock_directory(session_dir, stack)
        try:
            stack.enter_context(locked(os.path.join(session_dir, _SESSION_LOCK)))
        except DamagedFile as err:
            raise CorruptRecordError(err.path, err.problem) from err
        except OSError as err:
            if err.errno not in _NO_ROOM or not is_held:
                raise
        yield


def _lock_directory(directory: str, stack: ExitStack) -> bool:
    """Lock the directory for as long as the stack is open; false where its file system cannot."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(release, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        return False
    return True
