"""Servers that are nobody's children: they outlive the test that happens to start them."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ends", "environ", "free_port", "start_daemon"]

# A shell's background process has Ctrl-C ignored, and so would have all that it starts.
_STARTER = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
log = open(sys.argv[1], "ab")
print(subprocess.Popen(sys.argv[2:], stdout=log, stderr=log, start_new_session=True).pid, flush=True)
"""


def start_daemon(command: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    """Start it in a session of its own, with its output at the log's end; return its process id.

    It works where its log is: a Prefect worker copies a flow's folder into its working directory.
    """
    started = subprocess.run(
        [sys.executable, "-S", "-W", "ignore", "-c", _STARTER, str(log), *command],
        env=env,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=log.parent,
    )
    return int(started.stdout)


def ends(pid: int, timeout_s: float) -> bool:
    """Return whether the process has ended in that time; a zombie has."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)


def environ(pid: int) -> bytes:
    """Return the environment that a process was started with; nothing when it is gone or not ours to see."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def free_port() -> int:
    """Return a port of this host that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
