"""Locks between processes, which end with whoever held them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from torchx_core.errors import CorruptRecordError
from torchx_core.supervisor.reading import DamagedFile, open_regular

__all__ = ["locked", "locked_session"]

_SESSION_LOCK = ".lock"


@contextmanager
def locked(path: str) -> Generator[None]:
    """Hold an exclusive lock for a moment; waits for whoever has it.

    Raises:
        DamagedFile: Something else lies in its place.
    """
    fd = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def locked_session(session_dir: str) -> Generator[None]:
    """Hold the session's lock for moving directories of apps aside.

    Raises:
        CorruptRecordError: Something else lies in its place.
    """
    try:
        with locked(os.path.join(session_dir, _SESSION_LOCK)):
            yield
    except DamagedFile as err:
        raise CorruptRecordError(err.path, err.problem) from err
