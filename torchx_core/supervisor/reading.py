"""Reads a file that anything may have happened to: only a regular one, without blocking, and not too much.

Whatever stands in the place of a record (a FIFO, a device, a directory, a link in a circle, a gigabyte of
zeros, brackets in brackets) comes out as `DamagedFile`, at once. An error that may pass (a file server that
does not answer, no free descriptor) says nothing about the file, and stays the OSError that it is. This runs
in the supervisor and on the nodes of a Slurm cluster as well: only the standard library, and Python 3.7.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import cast

MAX_RECORD_BYTES = 64 << 20
"""No record that we write comes near it."""

MAX_ERROR_FILE_BYTES = 1 << 18
"""A longer one is left where it is: every status would carry it."""

AGENT = "agent."
"""Goes before the name of an error file, for what torchrun writes of itself (`dist.torchrun`)."""

_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
"""Say that something else lies in the place of a file."""
_FORBIDDEN = (errno.EACCES, errno.EPERM)


class DamagedFile(Exception):
    """The file is there, and cannot be what it should be."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def open_regular(
    path: str, flags: int = os.O_RDONLY, *, follow: bool = False, dir_fd: int | None = None
) -> int:
    """Return a descriptor of the file.

    Args:
        path: Its place.
        flags: What to do with it; one that may be created is, for its owner alone.
        follow: Read what a symbolic link leads to; our own records never are one.
        dir_fd: The directory that the path is relative to, where it is.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFile: It is no regular file, or may not be read.
        OSError: It cannot be opened just now.
    """
    try:
        fd = os.open(path, flags | _FLAGS | (0 if follow else os.O_NOFOLLOW), 0o600, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as err:
        if err.errno in _ABSENT:
            raise FileNotFoundError(err.errno, err.strerror, path) from err
        if not is_damage(err) or (flags & os.O_CREAT and err.errno in _FORBIDDEN):
            raise  # it says nothing about the file
        what = "is a symbolic link" if err.errno == errno.ELOOP else f"cannot be opened: {err.strerror}"
        raise DamagedFile(path, what) from err
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedFile(path, "is no regular file")
    return fd


def read_bytes(path: str, limit: int = MAX_RECORD_BYTES, *, follow: bool = False) -> bytes:
    """Return the whole file.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFile: It is no regular file, may not be read, or has more bytes than the limit.
        OSError: It cannot be read just now.
    """
    pieces: list[bytes] = []
    with _opened(path, follow=follow) as fd:
        left = limit + 1 if os.fstat(fd).st_size <= limit else 0
        while left > 0:
            piece = os.read(fd, min(left, 1 << 20))
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            left -= len(piece)
    raise DamagedFile(path, f"has more than {limit} bytes")


def read_part(path: str, offset: int, size: int) -> bytes:
    """Return that part of a log, or less when there is less: people delete logs.

    Links are followed: people move logs.

    Raises:
        DamagedFile: It is no regular file, or may not be read.
        OSError: It cannot be read just now.
    """
    try:
        with _opened(path, follow=True) as fd:
            size = min(size, os.fstat(fd).st_size - offset)  # a damaged size must not take all memory
            return os.pread(fd, size, offset) if size > 0 else b""
    except FileNotFoundError:
        return b""


class _opened:  # noqa: N801  (a context manager, without what contextlib adds to the time of each read)
    """Has the file open for a moment; its errors have the path, which the kernel does not tell."""

    def __init__(self, path: str, *, follow: bool) -> None:
        self._path = path
        self._fd = open_regular(path, follow=follow)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        os.close(self._fd)
        if isinstance(err, OSError):
            raise OSError(err.errno, err.strerror, self._path) from err


def is_damage(error: OSError) -> bool:
    """Return whether it says that the file cannot be what it should be, rather than that nobody can tell."""
    return error.errno in NO_FILE or error.errno in _FORBIDDEN


def is_there(path: str) -> bool:
    """Return whether there is anything of that name, be it a link that leads nowhere.

    Raises:
        OSError: Nobody can tell just now; `os.path.exists` would call it absent.
    """
    try:
        os.lstat(path)
    except OSError as err:
        if err.errno in _ABSENT:
            return False
        if is_damage(err):
            return True  # whoever reads it says what is wrong
        raise
    return True


def parse_object(data: bytes, path: str) -> dict[str, object]:
    """Return the JSON object.

    Raises:
        DamagedFile: It is none.
    """
    try:
        value = cast("object", json.loads(data))
    except (ValueError, RecursionError, MemoryError) as err:
        raise DamagedFile(path, f"is not JSON: {str(err) or type(err).__name__}") from err
    if not isinstance(value, dict):
        raise DamagedFile(path, "is no JSON object")
    return cast("dict[str, object]", value)


def read_object(path: str) -> dict[str, object] | None:
    """Return the JSON object in the file, or None when there is no such file.

    Raises:
        DamagedFile: The file is there, and holds none.
        OSError: It cannot be read just now.
    """
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return None
    return parse_object(data, path)


def read_error_file(path: str) -> str:
    """Return what a program wrote about its own failure, if it is JSON of a sane size; links are followed.

    Where it wrote nothing, that is what torchrun wrote of itself, which `dist.torchrun` has it do beside.

    Raises:
        OSError: It cannot be read just now.
    """
    directory, name = os.path.split(path)
    return _read_error(path) or _read_error(os.path.join(directory, f"{AGENT}{name}"))


def _read_error(path: str) -> str:
    try:
        text = read_bytes(path, MAX_ERROR_FILE_BYTES, follow=True)
        json.loads(text)
    except (FileNotFoundError, DamagedFile, ValueError, RecursionError, MemoryError):
        return ""
    return text.decode("utf-8", "replace")
