"""inotify(7): the kernel tells when a file is written to."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from torchx_core.supervisor.tree import libc

__all__ = ["OVERFLOW", "Inotify", "InotifyPool"]

_IN_MODIFY = 0x2
_IN_NONBLOCK = 0o4000
_IN_CLOEXEC = 0o2000000
_EVENT = struct.Struct("iIII")

OVERFLOW = -1
"""In place of a watch: events were dropped, any file may have been written to."""

_KEPT = 4


class Inotify:
    """One inotify instance: a descriptor that is readable when a watched file was written to."""

    def __init__(self) -> None:
        """Open an instance.

        Raises:
            OSError: Too many, or not this system.
        """
        if sys.platform != "linux":
            raise OSError("inotify is Linux's")
        self.fd: int = self._checked(libc().inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))

    def add(self, path: str) -> int:
        """Watch a file; the number comes back from `read`."""
        return self._checked(libc().inotify_add_watch(self.fd, os.fsencode(path), _IN_MODIFY))

    def remove(self, watch: int) -> None:
        """Stop watching; no error when the file is gone."""
        libc().inotify_rm_watch(self.fd, watch)

    def read(self) -> set[int]:
        """Return the watches whose files were written to since the last call."""
        watches: set[int] = set()
        try:
            while data := os.read(self.fd, 1 << 16):
                at = 0
                while at < len(data):
                    watch, _, _, length = _EVENT.unpack_from(data, at)
                    watches.add(watch)
                    at += _EVENT.size + length
        except BlockingIOError:
            return watches
        return watches

    def close(self) -> None:
        """Close the instance."""
        os.close(self.fd)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return answer


class InotifyPool:
    """Instances to use again: closing one takes the kernel 15 ms, which nobody should wait for.

    The kernel allows few per user (128 by default), so only a few are kept.
    """

    def __init__(self) -> None:
        """Open none yet."""
        self._idle: list[tuple[int, Inotify]] = []

    def take(self) -> Inotify:
        """Return an instance without watches.

        Raises:
            OSError: There is none to be had.
        """
        while self._idle:
            pid, inotify = self._idle.pop()
            if pid == os.getpid():
                return inotify
            inotify.close()  # a parent's: after a fork both would get each other's events
        return Inotify()

    def give_back(self, inotify: Inotify) -> None:
        """Keep an instance whose watches are all removed, or close it."""
        if len(self._idle) >= _KEPT:
            inotify.close()
        else:
            inotify.read()  # what its removed watches have left
            self._idle.append((os.getpid(), inotify))

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop()[1].close()
