"""What installed packages offer as entry points: read once for everything that looks for some."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = ["entry_points"]


def entry_points(*groups: str) -> list[EntryPoint]:
    """Return the entry points of these groups, those of the first group first.

    Those of all packages are read at once, which takes tens of milliseconds where hundreds are installed, and
    again only when a folder that Python imports from has changed, as by an installation.
    """
    of_group = _read(tuple((place, _changed_ns(place)) for place in sys.path))
    return [entry for group in groups for entry in of_group(group)]


@lru_cache(maxsize=1)
def _read(_places: tuple[tuple[str, int], ...]) -> Callable[[str], EntryPoints]:
    """Return what gives the entry points of a group; all are read now."""
    import importlib.metadata  # here: many a process looks for none

    found = importlib.metadata.entry_points()
    return lambda group: found.select(group=group)


def _changed_ns(place: str) -> int:
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:  # nothing is imported from there
        return 0
