"""Finds and ends processes that a measurement left behind: they carry its marker in their environment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from benchmarks.clock import monotonic, pause

MARKER = "BENCHMARK_RUN"
_PATIENCE_S = 5.0


def end_leftovers(marker: str) -> int:
    """Return how many processes had to be killed, after giving them a moment to end by themselves."""
    deadline = monotonic() + _PATIENCE_S
    while _alive(marker) and monotonic() < deadline:
        pause(0.02)
    stubborn = _alive(marker)
    for pid in stubborn:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(stubborn)


def _alive(marker: str) -> list[int]:
    needle = f"{MARKER}={marker}\0".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and needle in _environ(pid)]


def _environ(pid: int) -> bytes:
    """Return the process's environment; a zombie has none."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
