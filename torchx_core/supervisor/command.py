"""The command that an app's guardian and supervisor run as, and by which other processes know them.

An app may submit an app. The guardian of that one is then below the supervisor of the first, which ends
whatever is below it; it must tell this guardian from its own, for the inner app is one like any other.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

__all__ = ["command", "serves"]

# Stays as it is from version to version: an app and the app that it submits may differ in theirs.
_STUB = (
    "import sys; sys.path.append(sys.argv[1]); from torchx_core.supervisor.main import main;"
    " main(sys.argv[2], int(sys.argv[3]), [int(fd) for fd in sys.argv[4:]])"
)
_LOOKS = 100
_PAUSE_S = 0.001


def command(python: str, package_root: str, app_dir: str, fds: Sequence[int]) -> list[str]:
    """Return the command of an app's guardian.

    Args:
        python: The interpreter.
        package_root: Where it finds `torchx_core`.
        app_dir: The app's directory.
        fds: What it inherits: the descriptors of control pipe, lock and life sign.
    """
    return [python, "-I", "-S", "-c", _STUB, package_root, app_dir, *map(str, fds)]


def serves(pid: int) -> str | None:
    """Return the directory of the app whose guardian or supervisor this process is, or is about to become.

    None for any other process, and where there is no ``/proc``.
    """
    words = _words(pid)
    return (words[words.index(_STUB) :] + [""] * 3)[2] if _STUB in words else None


def _words(pid: int) -> list[str]:
    """Return a process's command; empty when it is gone."""
    for _ in range(_LOOKS):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")
            if words != [""] or not _lives(pid):
                return words
        except OSError:
            break
        select.select([], [], [], _PAUSE_S)
    return []


def _lives(pid: int) -> bool:
    """Whether it is no zombie. One that lives and has no command is about to have one: execve(2)."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
