"""What this process and its helpers take from the machine, read from /proc."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from time import process_time
from typing import NamedTuple

HELPER = b"torchx_core.supervisor"
"""In the command line of every process that one of the sides starts besides the jobs themselves."""


class Usage(NamedTuple):
    """A moment's reading of this process."""

    cpu_s: float
    threads: int
    fds: int


def usage() -> Usage:
    """Read it."""
    threads, fds = (len(list(Path("/proc/self", name).iterdir())) for name in ("task", "fd"))
    return Usage(process_time(), threads, fds)


class Memory(NamedTuple):
    """This process and the helpers, in MB."""

    pss_mb: float
    """What is shared is divided among those who share it."""
    private_mb: float


def memory() -> Memory:
    """Read it."""
    readings = [_memory(pid) for pid in ["self", *_helpers()]]
    return Memory(sum(r.pss_mb for r in readings), sum(r.private_mb for r in readings))


def own_memory_mb() -> float:
    """Read what is this process's alone, in MB."""
    return _memory("self").private_mb


def raise_file_limit() -> None:
    """Let this process open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _helpers() -> list[str]:
    """Return the helpers of this run: they carry its marker."""
    marker = b"BENCHMARK_RUN=" + os.environ.get("BENCHMARK_RUN", "-").encode()
    pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if HELPER in _read(pid, "cmdline") and marker in _read(pid, "environ")]


def _read(pid: str, name: str) -> bytes:
    try:
        return Path("/proc", pid, name).read_bytes()
    except OSError:
        return b""


def _memory(pid: str) -> Memory:
    kb: dict[bytes, float] = {}
    for line in _read(pid, "smaps_rollup").splitlines()[1:]:
        name, value, *_ = line.split()
        kb[name] = float(value)
    private = kb.get(b"Private_Clean:", 0.0) + kb.get(b"Private_Dirty:", 0.0)
    return Memory(kb.get(b"Pss:", 0.0) / 1024, private / 1024)
