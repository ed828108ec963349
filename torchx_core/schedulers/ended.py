"""What is known of a session's ended apps: a list of thousands then reads one file instead of each record."""

from __future__ import annotations

import os
from collections.abc import Container
from contextlib import suppress
from typing import Final, NamedTuple, cast, final

from torchx_core.schedulers.paths import name_of
from torchx_core.schedulers.responses import ListAppResponse
from torchx_core.specs import AppState, is_terminal
from torchx_core.supervisor.reading import DamagedFile
from torchx_core.supervisor.records import read_json, replace_whole
from torchx_core.supervisor.shape import is_text, is_time, is_whole

__all__ = ["DirectoryVersion", "EndedApps", "directory_version", "read_rows"]

FILE: Final = ".ended.json"
_VERSION: Final = 1
FEWEST: Final = 20
"""So many ended apps that the file does not know are read again each time, before it is written anew."""
_SHARE: Final = 500
"""Of more than `FEWEST` times this many apps, one in this many."""


class DirectoryVersion(NamedTuple):
    """Which directory it was that lay in an app's place, and when a name in it last changed."""

    inode: int
    changed_ns: int


class _Row(NamedTuple):
    inode: int
    changed_ns: int
    state: int
    name: str
    submitted_at: float


def directory_version(directory: str) -> DirectoryVersion | None:
    """Return what tells the app's directory from one that takes its place; None where nobody can tell."""
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return DirectoryVersion(found.st_ino, found.st_mtime_ns)


@final
class EndedApps:
    """Says again what a list once found, as long as the app's directory is the same and has not changed.

    The file can be left out, and is as good as none when it is damaged. Whoever lists writes it anew.
    """

    def __init__(self, session_dir: str) -> None:
        """Read the session's file."""
        self._session_dir = session_dir
        self._known = _read(os.path.join(session_dir, FILE))
        self._new: dict[str, _Row] = {}

    def find(self, name: str, version: DirectoryVersion | None) -> ListAppResponse | None:
        """Return what is known of the app in the directory of that name, if it has ended."""
        row = self._known.get(name)
        if row is None or row[:2] != version:
            return None
        state = AppState(row.state)
        return ListAppResponse(name_of(name), state, name=row.name, submitted_at=row.submitted_at)

    def note(self, name: str, version: DirectoryVersion | None, found: ListAppResponse) -> None:
        """Remember what was found in that version of the directory, if the app has ended."""
        if version and is_terminal(found.state) and found.submitted_at is not None:
            self._new[name] = _Row(*version, found.state.value, found.name, found.submitted_at)

    def save(self, present: Container[str], count: int) -> None:
        """Write the file anew, where that pays; not where this user may not, or on a full disk.

        Args:
            present: The directories that are there; others are forgotten.
            count: How many they are.
        """
        if len(self._new) < max(FEWEST, count // _SHARE) and len(self._known) < 2 * count + FEWEST:
            return
        kept = {name: row for name, row in self._known.items() if name in present}
        with suppress(OSError, DamagedFile):
            replace_whole(self._session_dir, FILE, {"version": _VERSION, "apps": {**kept, **self._new}})


def read_rows(path: str, key: str, version: int) -> dict[str, object]:
    """Return the rows of a file that can be done without; none if it is damaged, or of another version."""
    try:
        content = read_json(path) or {}
    except OSError:
        content = {}
    rows = content.get(key)
    return (
        cast("dict[str, object]", rows)
        if content.get("version") == version and isinstance(rows, dict)
        else {}
    )


def _read(path: str) -> dict[str, _Row]:
    rows = read_rows(path, "apps", _VERSION)
    return {name: _Row(*cast("_Row", row)) for name, row in rows.items() if _is_row(row)}


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(cells := cast("list[object]", row)) != len(_Row._fields):
        return False
    *numbers, state, name, submitted_at = cells
    return (
        all(map(is_whole, [*numbers, state])) and state in _ENDS and is_text(name) and is_time(submitted_at)
    )


_ENDS: Final = frozenset(state.value for state in AppState if is_terminal(state))
