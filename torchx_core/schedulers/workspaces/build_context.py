"""What a container engine builds a workspace's image from: a recipe, and a tar archive of the files."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchx_core.errors import InvalidAppError
from torchx_core.schedulers.workspaces.files import DOCKERFILE, Entry

__all__ = ["COPY_ALL", "archive", "has_recipe"]

COPY_ALL = "ARG IMAGE\nFROM $IMAGE\nCOPY . .\n"
"""The recipe of a workspace that has none."""

_PIECE = 1 << 18
_BLOCK = tarfile.BLOCKSIZE


def has_recipe(entries: Iterable[Entry]) -> bool:
    """Return whether the workspace says itself how its image is built."""
    return any(path == DOCKERFILE for path, _ in entries)


def archive(entries: Iterable[Entry], texts: dict[str, str]) -> Iterator[bytes]:
    """Yield the archive piece by piece, so that a workspace of any size takes little memory.

    Owners are left out: everything is root's, with the permissions that it has here.

    Args:
        entries: What of this host goes where.
        texts: Files of our own: path and content.

    Raises:
        InvalidAppError: A file changed its size, or went, while it was read.
    """
    for path, text in texts.items():
        content = text.encode()
        yield _header(path, tarfile.REGTYPE, 0o644, size=len(content)) + content + _padding(len(content))
    for path, source in entries:
        yield from _entry(path, source)
    yield bytes(2 * _BLOCK)


def _entry(path: str, source: str) -> Iterator[bytes]:
    try:
        found = os.lstat(source)
        permissions = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            yield _header(path, tarfile.SYMTYPE, permissions, linkname=str(Path(source).readlink()))
        elif stat.S_ISDIR(found.st_mode):
            yield _header(path, tarfile.DIRTYPE, permissions, mtime=found.st_mtime)
        else:
            yield _header(path, tarfile.REGTYPE, permissions, size=found.st_size, mtime=found.st_mtime)
            yield from _content(source, found.st_size)
    except OSError as err:
        raise InvalidAppError("workspace", f"cannot read {source!r}: {err.strerror or err}") from err


def _content(source: str, size: int) -> Iterator[bytes]:
    """Yield exactly as many bytes as the header promised."""
    left = size
    with Path(source).open("rb") as file:
        while left and (piece := file.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece
    if left:
        raise InvalidAppError("workspace", f"{source!r} became shorter while it was read; submit again")
    yield _padding(size)


def _header(
    path: str, kind: bytes, mode: int, *, size: int = 0, mtime: float = 0, linkname: str = ""
) -> bytes:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size, info.mtime, info.linkname = kind, mode, size, int(mtime), linkname
    return info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)
