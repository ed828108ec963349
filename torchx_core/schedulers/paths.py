"""Where schedulers that keep records in files keep them."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote

from torchx_core.errors import InvalidConfigError, InvalidInputError, RecordUnavailableError
from torchx_core.supervisor.reading import is_damage

__all__ = [
    "TRUST",
    "check_owner",
    "check_readable",
    "default_state_dir",
    "file_name",
    "make_private",
    "name_of",
    "state_root",
]

TRUST: Final = "TORCHX_TRUST_STATE_DIR"
"""Environment variable by which a user says that the state directory may be used whoever owns it."""
_YES: Final = frozenset({"1", "true", "yes"})
_MAX_NAME = 200
_EMPTY: Final = "%"
"""The file name of the empty name, as of the session in ``local_cwd:///app``; no other name gives it."""


def default_state_dir() -> str:
    """Return ``$TORCHX_STATE_DIR``, or ``torchx`` in the XDG state directory (~/.local/state)."""
    chosen = os.environ.get("TORCHX_STATE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    state_home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state_home, "torchx")


def file_name(name: str) -> str:
    """Return a file name for any text: never hidden, never a path, and turned back by `name_of`.

    Raises:
        InvalidInputError: It would be too long for a file system.
    """
    try:
        quoted = quote(name, safe="+=@:,", errors="surrogateescape")
    except UnicodeEncodeError as err:
        raise InvalidInputError(f"cannot use {name!r} as a name: it has half a character") from err
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) > _MAX_NAME:
        raise InvalidInputError(f"cannot use {name!r} as a name: it must have at most {_MAX_NAME} characters")
    return quoted or _EMPTY


def state_root(state_dir: str | None) -> str:
    """Return where records lie: what the caller chose, or the default.

    Raises:
        InvalidInputError: It is no path.
    """
    if state_dir and "\0" in state_dir:
        raise InvalidInputError(f"cannot use {state_dir!r} as a state directory: it has a NUL byte")
    return os.path.abspath(state_dir) if state_dir else default_state_dir()


def check_owner(session_dir: str) -> None:
    """Refuse to write or delete where somebody else decides what our records say, and what we run or remove.

    That is in a session's directory and in those around it. What exists there may be read, and ended.

    Raises:
        InvalidConfigError: One is somebody else's, anybody may write to it, or we may not look into it.
        RecordUnavailableError: Nobody can tell just now.
    """
    is_trusted, mine = os.environ.get(TRUST, "").lower() in _YES, os.geteuid()
    for directory in _places(session_dir):
        found = _look_at(directory)
        if found is None or is_trusted:
            continue
        if found.st_uid not in (mine, 0):
            raise _unusable(directory, f"belongs to user {found.st_uid}, and this is user {mine}")
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise _unusable(directory, f"can be changed by anybody (mode {stat.S_IMODE(found.st_mode):o})")


def check_readable(session_dir: str) -> None:
    """See that records can be read, whoever else may write there: a cancel must never be refused.

    Raises:
        InvalidConfigError: This user may not look into the session's directory, or one around it.
        RecordUnavailableError: Nobody can tell just now.
    """
    for directory in _places(session_dir):
        _look_at(directory)


def _places(session_dir: str) -> tuple[str, str, str]:
    """Return the state directory, a scheduler's in it, and a session's in that."""
    of_scheduler = os.path.dirname(session_dir)
    return os.path.dirname(of_scheduler), of_scheduler, session_dir


def _look_at(directory: str) -> os.stat_result | None:
    """Return what the system says of the directory, or None if there is none."""
    try:
        found = os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as err:
        if not is_damage(err):
            raise RecordUnavailableError(directory, str(err.strerror)) from err
        raise _unusable(directory, f"cannot be looked at: {err.strerror}") from err
    if not os.access(directory, os.R_OK | os.X_OK):
        raise _unusable(directory, f"cannot be looked into by user {os.geteuid()}")
    return found


def _unusable(directory: str, problem: str) -> InvalidConfigError:
    advice = (
        "set TORCHX_STATE_DIR to a directory of your own, perhaps inside it,"
        f" or {TRUST}=1 if you trust everybody who may write there with what you run"
    )
    return InvalidConfigError(f"state directory {directory}", None, f"{problem}; {advice}")


def make_private(directory: str) -> None:
    """Make the directory, and those around it, for this user alone, whatever the umask says."""
    if not os.path.isdir(directory):
        make_private(os.path.dirname(directory))
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)


def name_of(file: str) -> str:
    """Return what `file_name` was given."""
    return "" if file == _EMPTY else unquote(file, errors="surrogateescape")
