"""Runs a program in the foreground."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence


def wait_for(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program to its end, and return its exit code.

    Ctrl-C is the program's to answer, which gets it too: `subprocess.run` would kill it a quarter of a second
    later, before it has ended what it started.
    """
    with subprocess.Popen(command, env=env) as process:
        while process.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
        return process.returncode
