"""Locks between processes, which end with whoever held them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["locked"]


@contextmanager
def locked(path: str) -> Generator[None]:
    """Hold an exclusive lock for a moment; waits for whoever has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
