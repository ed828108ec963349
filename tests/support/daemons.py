"""Servers that are nobody's children: they outlive the test that happens to start them."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom

__all__ = ["ends", "environ", "free_port", "free_ports", "start_daemon"]

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
    """Return a port of this host that nobody listens on; another one at each call."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """Return the first of up to ten free ports in a row.

    They lie below those that the system gives to connections: one of these would be somebody's before the
    server that it is for has begun to listen.
    """
    for first in _ports:
        with suppress(OSError), ExitStack() as listening:
            for i in range(count):
                listening.enter_context(socket.create_server(("127.0.0.1", first + i)))
            return first
    raise RuntimeError("no free ports")


_ports = iter(SystemRandom().sample(range(17000, 32000, 10), 1500))
