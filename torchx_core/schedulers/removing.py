"""Makes, removes and measures directories of records, logs and images: whole ones alone have a plain name."""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress

__all__ = ["fresh_path", "move_aside", "remove_debris", "remove_tree", "rename_unless_there", "tree_size"]

_HIDDEN = (".new-", ".undone-", ".deleted-")
_DEBRIS_AGE_S = 3600
_BLOCK = 512  # the unit of st_blocks, on every file system: inode(7)


def remove_tree(path: str) -> None:
    """Remove the directory with all that is in it, read-only directories included, as far as we may."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        _make_writable(path)
        shutil.rmtree(path, ignore_errors=True)


def fresh_path(directory: str) -> str:
    """Return a hidden path in the directory, by which `remove_debris` knows what is being made there."""
    return os.path.join(directory, f".new-{os.urandom(6).hex()}")


def rename_unless_there(fresh: str, path: str) -> bool:
    """Give a directory that is whole its plain name; false when another that is not empty has it."""
    try:
        os.rename(fresh, path)
    except OSError as err:
        if err.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def move_aside(path: str) -> str:
    """Give the directory a hidden name, by which `remove_debris` knows it, and return that."""
    aside = os.path.join(os.path.dirname(path), f".deleted-{os.urandom(6).hex()}")
    os.rename(path, aside)
    return aside


def remove_debris(session_dir: str) -> None:
    """Remove hidden directories of submits and deletes that died half way, an hour after they did."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(session_dir):
            if entry.name.startswith(_HIDDEN) and time.time() - entry.stat().st_mtime > _DEBRIS_AGE_S:
                remove_tree(entry.path)


def tree_size(directory: str) -> int:
    """Return how much disk space the files below the directory take."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                found = os.lstat(os.path.join(folder, name))
                size += min(found.st_size, found.st_blocks * _BLOCK)  # a log may have holes
    return size


def _make_writable(path: str) -> None:
    with suppress(OSError):
        os.chmod(path, 0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                with suppress(OSError):
                    os.chmod(inner, 0o700)  # before the walk goes down into it
