"""The command that an app's guardian and supervisor run as, and by which other processes know them.

An app may submit an app. The guardian of that one is then below the supervisor of the first, which ends
whatever is below it; it must tell this guardian from its own, for the inner app is one like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["STUB", "command"]

# Stays as it is from version to version: an app and the app that it submits may differ in theirs.
STUB = (
    "import sys; sys.path.append(sys.argv[1]); from torchx_core.supervisor.main import main;"
    " main(sys.argv[2], int(sys.argv[3]), [int(fd) for fd in sys.argv[4:]])"
)
"""The word of the command that no other program has; the second after it is the app's directory."""


def command(python: str, package_root: str, app_dir: str, fds: Sequence[int]) -> list[str]:
    """Return the command of an app's guardian.

    Args:
        python: The interpreter.
        package_root: Where it finds `torchx_core`.
        app_dir: The app's directory.
        fds: What it inherits: the descriptors of control pipe, lock and life sign.
    """
    return [python, "-I", "-S", "-c", STUB, package_root, app_dir, *map(str, fds)]
