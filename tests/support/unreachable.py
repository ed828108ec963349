"""Files that cannot be opened for a while, as while their file server does not answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from damage import verbs

from torchx_core import Runner
from torchx_core.errors import RecordUnavailableError

_ERRORS: Final[dict[str, int]] = {}
_OPENING: Final = ("open", "os.listdir", "os.scandir")
_installed = False


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if not _ERRORS or event not in _OPENING or not isinstance(args[0], str | os.PathLike):
        return
    path = os.fspath(args[0])
    for place, number in _ERRORS.items():
        if path == place or str(path).startswith(f"{place}/"):
            raise OSError(number, os.strerror(number), path)


@contextmanager
def unreachable(place: Path, number: int) -> Iterator[None]:
    """Have this process fail, with this error of the system's, to open the file or what lies below it.

    A hook of the interpreter does it, right where it calls the system; it cannot be removed again, and does
    nothing outside of the block.
    """
    global _installed  # noqa: PLW0603  # an interpreter has its hooks for good
    if not _installed:
        sys.addaudithook(_refuse)
        _installed = True
    _ERRORS[str(place)] = number
    try:
        yield
    finally:
        del _ERRORS[str(place)]


def refusals(runner: Runner, handle: str, role: str) -> list[RecordUnavailableError]:
    """Return what the verbs raise that end nothing and wait for nothing; any other error is raised."""
    found: list[RecordUnavailableError] = []
    for name, verb in verbs(runner, handle, role).items():
        if not name.startswith(("delete", "wait", "log_lines")):
            try:
                verb()
            except RecordUnavailableError as err:
                found.append(err)
    return found
