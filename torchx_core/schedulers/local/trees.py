"""Copies directory trees."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress

from torchx_core.schedulers.workspaces import Entry

__all__ = ["copy_entries"]

_CHUNK = 1 << 30


def copy_entries(entries: Iterable[Entry], target: str) -> None:
    """Make the target, a new directory, of the entries; the parent must exist.

    Nothing is linked to its source: who writes to one does not change the other.

    Raises:
        OSError: A source vanished, or the target cannot be written; what was copied stays.
    """
    os.mkdir(target, 0o700)
    folders: list[tuple[str, int]] = []
    for path, source in entries:
        place, mode = os.path.join(target, path), os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), place)
        elif stat.S_ISDIR(mode):
            os.mkdir(place, 0o700)
            folders.append((place, mode))
        else:
            _copy_file(source, place)
            os.chmod(place, stat.S_IMODE(mode))
    for place, mode in reversed(folders):  # only now: nothing can be put into a read-only directory
        os.chmod(place, stat.S_IMODE(mode))


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as reader, open(target, "xb") as writer:
        with suppress(AttributeError, OSError):  # not on macOS, not between all file systems
            # shares the blocks until one side is written to, where the file system can
            while os.copy_file_range(reader.fileno(), writer.fileno(), _CHUNK):
                pass
        shutil.copyfileobj(reader, writer)  # goes on where that stopped
