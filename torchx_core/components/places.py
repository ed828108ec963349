"""Where component files may lie."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from torchx_core.errors import InvalidInputError

__all__ = ["ANYWHERE", "PATHS_VARIABLE", "Places", "allowed_places"]

PATHS_VARIABLE = "TORCHX_COMPONENT_PATHS"


class Places:
    """The directories in which component files may lie; None for anywhere.

    A component file runs with all that this process may do. This decides which files may be named, not what
    they do: nobody but the administrator should be able to write to these directories.
    """

    def __init__(self, directories: Iterable[str | Path] | None) -> None:
        """Take absolute directories; none at all allows no file.

        Raises:
            InvalidInputError: A directory is relative: it would mean another one for each caller.
        """
        self._directories = None if directories is None else [_absolute(each) for each in directories]

    def admit(self, file: str) -> None:
        """Refuse a file that lies elsewhere; symbolic links are followed first.

        Raises:
            InvalidInputError: It lies elsewhere.
        """
        if self._directories is None:
            return
        real = Path(file).resolve()
        if not any(real.is_relative_to(directory) for directory in self._directories):
            allowed = os.pathsep.join(map(str, self._directories)) or "no directory"
            raise InvalidInputError(
                f"component file {str(real)!r} may not be used; expected a file below {allowed};"
                f" move it there, or change {PATHS_VARIABLE}"
            )


ANYWHERE: Final = Places(None)


def allowed_places(paths: Iterable[str | Path] | None = None) -> Places:
    """Return the places given, else those of ``$TORCHX_COMPONENT_PATHS``, else anywhere.

    The variable is a list like ``PATH``. Set but empty, it allows no file.
    """
    text = os.environ.get(PATHS_VARIABLE)
    if paths is None and text is not None:
        paths = [path for path in text.split(os.pathsep) if path]
    return ANYWHERE if paths is None else Places(paths)


def _absolute(directory: str | Path) -> Path:
    path = Path(directory)
    if not path.is_absolute():
        raise InvalidInputError(f"component path {str(path)!r} is relative; expected an absolute directory")
    return path.resolve()
