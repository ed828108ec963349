"""Holds a replica to its memory and cores, by a control group where this host lets us make one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from torchx_core.supervisor.usage import out_of_memory

_PERIOD_US = 100_000
_ANY_APP = "torchx-"
_MEMORY_LIMIT = "memory limit"


class Group(NamedTuple):
    """The control groups of one attempt."""

    directories: tuple[str, ...]
    memory_events: str
    """File whose ``oom_kill`` line counts kills at the limit."""
    missing: str
    """What is not enforced, in words; empty when all is."""

    @property
    def entrances(self) -> tuple[str, ...]:
        """Files into which a process writes its id to join."""
        return tuple(map(entrance, self.directories))

    def why_killed(self, peak_mb: int, limit_mb: int) -> str:
        """Return what to say if the kernel killed something in here for want of memory; else nothing."""
        try:
            with open(self.memory_events) as file:
                fields = dict(line.split() for line in file)
        except (OSError, ValueError):
            return ""
        return out_of_memory(peak_mb, limit_mb) if int(fields.get("oom_kill", 0)) > 0 else ""

    def remove(self) -> None:
        """Remove the groups; one that still has processes stays."""
        for directory in self.directories:
            try:
                os.rmdir(directory)
            except OSError:
                continue


def entrance(directory: str) -> str:
    """Return the file into which a process writes its id to join the group."""
    return os.path.join(directory, "cgroup.procs")


def confine(name: str, *, cpu: float, mem_mb: int) -> Group:
    """Make control groups with these limits; what cannot be made is named in ``missing``.

    Args:
        name: Unique on this host.
        cpu: Cores; 0 for no limit.
        mem_mb: Megabytes; 0 for no limit.
    """
    # A directory; or empty, where no limit is wanted, or None, where none can be had.
    memory = _make("memory", name, _memory_files(mem_mb)) if mem_mb > 0 else ""
    cores = _make("cpu", name, _cpu_files(cpu)) if cpu > 0 else ""
    memory_events = _existing(memory, "memory.events", "memory.oom_control") if memory else ""
    limits = {f"{_MEMORY_LIMIT} of {mem_mb} MB": memory, f"limit of {cpu:g} cores": cores}
    missing = ", ".join(limit for limit, made in limits.items() if made is None)
    text = f"not enforced on this host (no writable control group): {missing}" if missing else ""
    return Group(tuple(dict.fromkeys(filter(None, limits.values()))), memory_events, text)


def holds_memory(missing: str) -> bool:
    """Return whether a limit of memory is enforced where `Group.missing` says this."""
    return _MEMORY_LIMIT not in missing


def group_prefix(app: str) -> str:
    """Return how the names of an app's control groups begin; `app` is unique on this host."""
    return f"{_ANY_APP}{app}-"


def groups_of(pid: int, app: str) -> list[str]:
    """Return the control groups of an app's attempt in which the process is, without repeats.

    Args:
        pid: The process.
        app: What the groups of the app are named by; unique on this host.
    """
    prefix = group_prefix(app)
    found = _directories_of(str(pid))
    return list(dict.fromkeys(path for path in found if os.path.basename(path).startswith(prefix)))


def leave_groups() -> None:
    """Leave the control groups of the app from which this one was submitted: its limits are not ours."""
    for directory in _directories_of("self"):
        parent, name = os.path.split(directory)
        if name.startswith(_ANY_APP):
            with suppress(OSError), open(os.path.join(parent, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))


def remove_groups(prefix: str) -> None:
    """Remove the control groups of that name, which a killed supervisor left."""
    for _, home in set(_homes().values()):
        with suppress(OSError):
            for name in os.listdir(home):
                if name.startswith(prefix):
                    os.rmdir(os.path.join(home, name))


def _memory_files(mem_mb: int) -> dict[int, tuple[str, str]]:
    return {1: ("memory.limit_in_bytes", str(mem_mb << 20)), 2: ("memory.max", str(mem_mb << 20))}


def _cpu_files(cpu: float) -> dict[int, tuple[str, str]]:
    quota = int(cpu * _PERIOD_US)
    return {1: ("cpu.cfs_quota_us", str(quota)), 2: ("cpu.max", f"{quota} {_PERIOD_US}")}


@cache
def _homes() -> dict[str, tuple[int, str]]:
    """Return controller -> (version, directory of our own group in it); read once per process."""
    own = _groups_of("self")
    homes: dict[str, tuple[int, str]] = {}
    for mount, kind, options in mounts():
        if kind == "cgroup2" and "" in own:
            directory = mount + own[""]
            for controller in _words(os.path.join(directory, "cgroup.subtree_control")):
                homes.setdefault(controller, (2, directory))
        elif kind == "cgroup":
            for controller in set(options) & set(own):
                homes[controller] = (1, mount + own[controller])
    return homes


def _directories_of(pid: str) -> Iterator[str]:
    own = _groups_of(pid)
    for mount, kind, options in mounts():
        if kind in ("cgroup", "cgroup2"):
            for controller in {*options, ""} & set(own):
                yield mount + own[controller]


def _groups_of(pid: str) -> dict[str, str]:
    groups: dict[str, str] = {}
    for line in _lines(f"/proc/{pid}/cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path.rstrip("/")))
    return groups


def mounts() -> list[tuple[str, str, list[str]]]:
    """Return where file systems are mounted, their kinds and options; nothing where there is no ``/proc``."""
    rows: list[tuple[str, str, list[str]]] = []
    for line in _lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        rows.append((left.split()[4].replace("\\040", " "), kind, options.split(",")))
    return rows


def _make(controller: str, name: str, files: dict[int, tuple[str, str]]) -> str | None:
    """Return the directory of the group with that limit, which may be there; None if that fails."""
    homes = _homes()
    if controller not in homes:
        return None
    version, home = homes[controller]
    directory = os.path.join(home, name)
    file, value = files[version]
    is_new = not os.path.isdir(directory)  # else another limit of the same attempt has made it
    try:
        if is_new:
            os.mkdir(directory)
        with open(os.path.join(directory, file), "w") as target:
            target.write(value)
    except OSError:
        if is_new:
            with suppress(OSError):
                os.rmdir(directory)
        return None
    return directory


def _existing(directory: str, *names: str) -> str:
    paths = (os.path.join(directory, name) for name in names)
    return next((p for p in paths if os.path.exists(p)), "")


def _words(path: str) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
