"""What the measured jobs run: small programs that say when they did what, on one clock."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["program", "script", "when_up"]


def program(name: str, *args: object) -> list[str]:
    """Return the command that runs one of this folder's programs, in a bare interpreter."""
    path = Path(__file__).with_name(f"{name}.py")
    return [sys.executable, "-I", "-S", str(path), *map(str, args)]


def script(name: str, *args: object) -> list[str]:
    """Return the command that runs one of this folder's shell scripts."""
    return ["sh", str(Path(__file__).with_name(f"{name}.sh")), *map(str, args)]


def when_up(fifo: Path) -> list[str]:
    """Return the command of a replica that writes one byte into the pipe when it runs, and then sleeps."""
    return ["sh", "-c", 'printf . >"$0"; exec sleep 1000', str(fifo)]
