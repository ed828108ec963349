"""What attempts have used: told by the kernel of each process that has ended, or by their control group."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from resource import struct_rusage

_KB_PER_MB = 1 << 10


class Used(NamedTuple):
    """What a replica has used in attempts that have ended; None for what is not known of all of them."""

    cpu_s: float | None = None
    wall_s: float | None = None
    peak_mb: int | None = None


def after_attempt(
    before: Used | None,
    started_at: float | None,
    ended_at: float,
    cpu_s: float | None = None,
    peak_mb: int | None = None,
) -> Used:
    """Return what a replica has used, once another attempt has ended.

    Args:
        before: What it had used in earlier ones; None for none.
        started_at: Of this one, in seconds since the epoch.
        ended_at: The same.
        cpu_s: CPU time of this one.
        peak_mb: The most memory that this one had.
    """
    wall_s = None if started_at is None else max(0.0, round(ended_at - started_at, 3))
    if before is None:
        return Used(cpu_s, wall_s, peak_mb)
    known = None not in (peak_mb, before.peak_mb)
    return Used(
        _sum(cpu_s, before.cpu_s),
        _sum(wall_s, before.wall_s),
        max(peak_mb or 0, before.peak_mb or 0) if known else None,
    )


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else round(a + b, 3)


class Tally:
    """Adds up what the processes of each attempt have used, one after the other as they end."""

    def __init__(self) -> None:
        """Know of nothing yet."""
        self._cpu_s: dict[int, float] = {}
        self._peak_mb: dict[int, int] = {}

    def take(self, pid: int, usage: struct_rusage) -> None:
        """Count a process that has ended, with all those that it has waited for.

        Args:
            pid: The main process of the attempt that it belongs to.
            usage: What wait4(2) says of it.
        """
        cpu_s, peak_mb = usage.ru_utime + usage.ru_stime, -(-usage.ru_maxrss // _KB_PER_MB)
        self._cpu_s[pid] = self._cpu_s.get(pid, 0.0) + cpu_s
        self._peak_mb[pid] = max(self._peak_mb.get(pid, 0), peak_mb)

    def close(self, pid: int, directories: Iterable[str]) -> tuple[float, int]:
        """Return CPU time and peak of the attempt, whose main process has ended, and forget it.

        Its control groups know better: they have counted what it left behind, and its processes together.

        Args:
            pid: Its main process.
            directories: Its control groups.
        """
        cpu_s, peak_mb = self._cpu_s.pop(pid, 0.0), self._peak_mb.pop(pid, 0)
        counted_s, peak = group_cpu_s(directories), group_peak_bytes(directories)
        return (
            round(cpu_s if counted_s is None else counted_s, 3),
            peak_mb if peak is None else as_mb(peak),
        )


def as_mb(size_bytes: int) -> int:
    """Return how many megabytes that is, of 2**20 bytes as ``memMB`` counts them, rounded up."""
    return -(-size_bytes >> 20)


def group_cpu_s(directories: Iterable[str]) -> float | None:
    """Return the CPU time of all processes that were ever in these control groups, if they count it."""
    nanoseconds = group_number(directories, "cpuacct.usage")
    if nanoseconds is not None:
        return nanoseconds / 1e9
    microseconds = group_field(directories, "cpu.stat", "usage_usec")
    return None if microseconds is None else microseconds / 1e6


def group_peak_bytes(directories: Iterable[str]) -> int | None:
    """Return the most memory that these control groups had, what was cached for them included."""
    return group_number(directories, "memory.peak", "memory.max_usage_in_bytes")


def group_number(directories: Iterable[str], *names: str) -> int | None:
    """Return the number in the first of these files that is there; None where it is no number, as ``max``."""
    for text in _read(directories, *names):
        return int(text) if text.strip().isdecimal() else None
    return None


def group_field(directories: Iterable[str], name: str, *fields: str) -> int | None:
    """Return the number behind the first of these fields that is in the file of that name."""
    for text in _read(directories, name):
        values = {name: value for name, _, value in (line.partition(" ") for line in text.splitlines())}
        for field in fields:
            if values.get(field, "").isdecimal():
                return int(values[field])
    return None


def _read(directories: Iterable[str], *names: str) -> Iterable[str]:
    """Yield the content of those files that are there, in the order of their names."""
    for path in [os.path.join(directory, name) for name in names for directory in directories]:
        try:
            with open(path) as file:
                yield file.read()
        except OSError:
            continue


def out_of_memory(peak_mb: int | None, limit_mb: int | None) -> str:
    """Say that memory has run out, and how much there was.

    Example:
        >>> out_of_memory(512, 512)
        'out of memory: peak 512 MB of 512 MB allowed by memMB'
    """
    if not limit_mb:
        return "out of memory" if peak_mb is None else f"out of memory: peak {peak_mb} MB"
    known = f"peak {peak_mb} MB of {limit_mb} MB allowed by memMB"
    return f"out of memory: {known}" if peak_mb is not None else f"out of memory: memMB allows {limit_mb} MB"
