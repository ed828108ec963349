"""A name for the content of an image."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from torchx_core.schedulers.workspaces.files import Entry
from torchx_core.schedulers.workspaces.reading import reading

__all__ = ["digest"]


def digest(entries: Iterable[Entry], *also: str) -> str:
    """Return 64 hexadecimal digits that follow from paths, kinds, permissions and contents, and nothing else.

    Where the entries come from, who owns them and when they were written do not count.

    Args:
        entries: In the order of the paths, as `walk` and `merged` give them.
        also: What else the image follows from, for example the name of the image beneath.

    Raises:
        InvalidAppError: An entry cannot be read.
    """
    import hashlib  # imported here: OpenSSL takes 3 ms to load

    total = hashlib.sha256(_framed(*also))
    for path, source in entries:
        with reading(source):
            total.update(_framed(path, *_described(source)))
    return total.hexdigest()


def _described(source: str) -> tuple[str, ...]:
    """Return kind, permissions and content."""
    import hashlib

    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        return "link", os.readlink(source)  # a link has no permissions of its own
    permissions = f"{stat.S_IMODE(mode):o}"
    if stat.S_ISDIR(mode):
        return "directory", permissions
    with open(source, "rb") as file:
        return "file", permissions, hashlib.file_digest(file, "sha256").hexdigest()


def _framed(*texts: str) -> bytes:
    """Return the texts with their number and lengths, so that no two lists of texts look the same."""
    parts = [os.fsencode(text) for text in texts]
    return b"%d;" % len(parts) + b"".join(b"%d:%b" % (len(part), part) for part in parts)
