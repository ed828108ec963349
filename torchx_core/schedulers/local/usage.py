"""What the replicas of a local app use: their control groups say, or else the kernel of each process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from torchx_core.schedulers import UsageSample
from torchx_core.schedulers.local.gpus import BusyGpu, busy_gpus, find_nvml, share
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.schedulers.local.view import memory_limit_mb
from torchx_core.specs import Usage
from torchx_core.supervisor import machine
from torchx_core.supervisor.limits import groups_of
from torchx_core.supervisor.tree import children, descendants, parent_of, serves, session_of
from torchx_core.supervisor.usage import group_cpu_s, group_field, group_number, group_peak_bytes

__all__ = ["usage_now"]


def usage_now(record: AppRecord, state: machine.State, now: float) -> list[UsageSample]:
    """Return a sample of each replica that runs.

    Args:
        record: The app, which is served.
        state: How it stands.
        now: Seconds since the epoch.
    """
    up = {r.pid: index for index, r in enumerate(state.replicas) if r.phase == machine.UP}
    gpus = busy_gpus(find_nvml()) if up else []
    samples: list[UsageSample] = []
    for pid, pids in _processes_of(up, record.directory):
        replica = state.replicas[up[pid]]
        limit_mb = memory_limit_mb(record.plan, up[pid], replica)
        groups = groups_of(pid, record.incarnation)
        usage = _usage(groups, {*pids, *_members(groups)}, gpus, limit_mb)
        if usage is not None:
            samples.append(
                UsageSample(
                    role=replica.role,
                    replica=replica.replica_id,
                    attempt=replica.attempt,
                    usage=usage,
                    time=now,
                )
            )
    return samples


def _processes_of(mains: Iterable[int], app_dir: str) -> Iterator[tuple[int, list[int]]]:
    """Yield the main process of each replica with all of its processes, those that it has left behind too.

    All of them are below the supervisor. It has started each in a session of its own, by which an orphan is
    known; and a number that the system has given to somebody else meanwhile.
    """
    found = {pid: list[int]() for pid in mains if session_of(pid) == pid}
    for supervisor in {parent_of(pid) for pid in found}:
        for child in children(supervisor):
            owner = session_of(child)
            if owner in found and serves(child) in (None, app_dir):
                found[owner] += [child, *descendants(child, app_dir)]
    return ((pid, pids) for pid, pids in found.items() if pid in pids)


def _members(groups: Sequence[str]) -> Iterator[int]:
    """Yield the processes in the control groups, wherever they stand in the tree."""
    for group in groups:
        try:
            with open(os.path.join(group, "cgroup.procs")) as file:
                yield from map(int, file.read().split())
        except OSError:
            continue


def _usage(groups: Sequence[str], pids: set[int], gpus: Sequence[BusyGpu], limit_mb: int) -> Usage | None:
    """Return what the processes use; None when they have ended meanwhile."""
    total = _added_up(pids)
    if total is None:
        return None
    gpu_percent, gpu_memory_bytes = share(gpus, pids)
    cpu_s, memory_bytes = group_cpu_s(groups), _group_memory(groups)
    return Usage(
        cpu_s=round(total.cpu_s if cpu_s is None else cpu_s, 3),
        memory_bytes=total.memory_bytes if memory_bytes is None else memory_bytes,
        memory_peak_bytes=group_peak_bytes(groups),
        memory_limit_bytes=limit_mb << 20 or None,
        processes=total.processes,
        read_bytes=total.read_bytes,
        write_bytes=total.write_bytes,
        gpu_percent=gpu_percent,
        gpu_memory_bytes=gpu_memory_bytes,
    )


def _group_memory(groups: Sequence[str]) -> int | None:
    """Return what the control groups have now, without files that they have read and not used lately."""
    size = group_number(groups, "memory.current", "memory.usage_in_bytes")
    cached = group_field(groups, "memory.stat", "total_inactive_file", "inactive_file")
    return None if size is None else max(0, size - (cached or 0))


class _Total(NamedTuple):
    """What some processes use together."""

    processes: int
    cpu_s: float
    memory_bytes: int
    read_bytes: int | None
    write_bytes: int | None


def _added_up(pids: Iterable[int]) -> _Total | None:
    total = None
    for pid in pids:
        one = _one(pid)
        if one is not None:
            total = one if total is None else _plus(total, one)
    return total


def _one(pid: int) -> _Total | None:
    """Return what a process uses, with the time of those that it has waited for; None when it has ended.

    Read from proc(5), because another host that runs apps for us has nothing installed but Python.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    cpu_s = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    memory_bytes = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    moved: dict[bytes, int] = {}
    with suppress(OSError), open(f"/proc/{pid}/io", "rb") as file:  # it may be another user's
        moved = {name: int(value) for name, _, value in (line.partition(b":") for line in file)}
    return _Total(1, cpu_s, memory_bytes, moved.get(b"read_bytes"), moved.get(b"write_bytes"))


def _plus(a: _Total, b: _Total) -> _Total:
    unknown = None in (a.read_bytes, b.read_bytes)
    return _Total(
        a.processes + b.processes,
        a.cpu_s + b.cpu_s,
        a.memory_bytes + b.memory_bytes,
        None if unknown else (a.read_bytes or 0) + (b.read_bytes or 0),
        None if unknown else (a.write_bytes or 0) + (b.write_bytes or 0),
    )
