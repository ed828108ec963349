"""Finds and ends processes that a measurement left behind: they carry its marker in their environment."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from benchmarks.clock import monotonic, pause

MARKER = "BENCHMARK_RUN"
_PATIENCE_S = 5.0
_ZYGOTE = b"torchx-zygote\0"


def end_leftovers(marker: str) -> int:
    """Return how many processes had to be killed, after giving them a moment to end by themselves.

    A zygote is ended and does not count: it would wait for the next submit a while, and go.
    """
    for pid in _alive(marker):
        if _read(pid, "cmdline").startswith(_ZYGOTE):
            _kill(pid)
    deadline = monotonic() + _PATIENCE_S
    while _alive(marker) and monotonic() < deadline:
        pause(0.02)
    stubborn = _alive(marker)
    for pid in stubborn:
        _kill(pid)
    return len(stubborn)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _alive(marker: str) -> list[int]:
    needle = f"{MARKER}={marker}\0".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and needle in _read(pid, "environ")]


def _read(pid: int, name: str) -> bytes:
    """Return what the system says of the process; a zombie has neither environment nor words."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
