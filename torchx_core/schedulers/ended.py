"""What is known of a session's ended apps: a list of thousands then reads one file instead of each record."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, cast, final

from torchx_core.schedulers.paths import file_name, name_of
from torchx_core.schedulers.responses import ListAppResponse
from torchx_core.specs import AppState, is_terminal
from torchx_core.supervisor.reading import DamagedFile, read_bytes
from torchx_core.supervisor.records import dumps, replace_bytes
from torchx_core.supervisor.shape import is_text, is_time, is_whole

__all__ = ["DirectoryVersion", "EndedApps", "directory_version"]

FILE: Final = ".ended.json"
_HEAD: Final = '{"version":2,"apps":{'
_TAIL: Final = "}}"
FEWEST: Final = 20
"""So many ended apps that the file does not know are read again each time, before it is written anew."""
_SHARE: Final = 2000
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


def directory_version(directory: str | os.DirEntry[str]) -> DirectoryVersion | None:
    """Return what tells the app's directory from one that takes its place; None where nobody can tell."""
    try:
        found = os.stat(directory) if isinstance(directory, str) else directory.stat()
    except OSError:
        return None
    return DirectoryVersion(found.st_ino, found.st_mtime_ns)


@final
class EndedApps:
    """Says again what a list once found, as long as the app's directory is the same and has not changed.

    The file can be left out, and is as good as none when it is damaged. Whoever lists writes it anew. It is
    JSON with a line for each app, in the order in which they were submitted: of a hundred thousand lines only
    those are decoded that somebody wants to see.
    """

    def __init__(self, session_dir: str) -> None:
        """Read the session's file."""
        self._session_dir = session_dir
        self._known = _read(os.path.join(session_dir, FILE))
        self._new: dict[str, _Row] = {}

    def has(self, name: str, version: DirectoryVersion | None) -> bool:
        """Return whether the app in that version of the directory is known to have ended."""
        return version is not None and self._known.get(name, "").startswith(f"[{version[0]},{version[1]},")

    def newest_first(self) -> Iterator[str]:
        """Yield the names of the directories that were known, in the reverse order of submission."""
        return reversed(self._known)

    def find(self, name: str, version: DirectoryVersion | None) -> ListAppResponse | None:
        """Return what is known of the app in the directory of that name, if it has ended."""
        row = _decode(self._known[name]) if self.has(name, version) else None
        if row is None:
            return None
        state = AppState(row.state)
        return ListAppResponse(name_of(name), state, name=row.name, submitted_at=row.submitted_at)

    def note(self, name: str, version: DirectoryVersion | None, found: ListAppResponse) -> None:
        """Remember what was found in that version of the directory, if the app has ended.

        Not of a directory with a name that somebody else has given: only a name of ours needs no escapes.
        """
        if not version or not is_terminal(found.state) or name != file_name(found.app_id):
            return
        if found.submitted_at is not None:
            self._new[name] = _Row(*version, found.state.value, found.name, found.submitted_at)

    def save(self, present: Container[str], count: int) -> None:
        """Write the file anew, where that pays; not where this user may not, or on a full disk.

        Args:
            present: The directories that are there; others are forgotten.
            count: How many they are.
        """
        if len(self._new) < max(FEWEST, count // _SHARE) and len(self._known) < 2 * count + FEWEST:
            return
        rows = {name: row for name, row in self._known.items() if name in present}
        rows |= {name: dumps(row).decode() for name, row in self._new.items()}
        lines = (f'"{name}":{row}' for name, row in sorted(rows.items(), key=_time))
        content = "\n".join((_HEAD, ",\n".join(lines), _TAIL))
        with suppress(OSError, DamagedFile):
            replace_bytes(self._session_dir, FILE, content.encode())


def _time(item: tuple[str, str]) -> float:
    """Return the last cell of the row: to decode all of a hundred thousand takes most of a second."""
    try:
        return float(item[1].rpartition(",")[2].rstrip("]"))
    except ValueError:
        return 0.0


def _read(path: str) -> dict[str, str]:
    """Return the rows by the names of their directories, neither of them decoded."""
    try:
        head, *lines = read_bytes(path).decode().split("\n")
    except (OSError, DamagedFile, UnicodeDecodeError):
        return {}
    if head != _HEAD or lines[-1:] != [_TAIL]:
        return {}
    cells = (line[1:].rstrip(",").partition('":') for line in lines[:-1])
    return {name: row for name, _, row in cells}


def _decode(text: str) -> _Row | None:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _Row(*row) if _is_row(row) else None


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(cells := cast("list[object]", row)) != len(_Row._fields):
        return False
    *numbers, state, name, submitted_at = cells
    return (
        all(map(is_whole, [*numbers, state])) and state in _ENDS and is_text(name) and is_time(submitted_at)
    )


_ENDS: Final = frozenset(state.value for state in AppState if is_terminal(state))
