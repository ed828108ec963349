"""Where schedulers that keep records in files keep them."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote

from torchx_core.errors import InvalidInputError

__all__ = ["default_state_dir", "file_name", "name_of"]

_MAX_NAME = 200


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
    quoted = quote(name, safe="+=@:,", errors="surrogateescape")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if not quoted or len(quoted) > _MAX_NAME:
        raise InvalidInputError(f"cannot use {name!r} as a name: it must have 1 to {_MAX_NAME} characters")
    return quoted


def name_of(file: str) -> str:
    """Return what `file_name` was given."""
    return unquote(file, errors="surrogateescape")
