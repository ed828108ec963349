"""Has a zygote become an app's guardian: which one may, and how it is asked."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

from torchx_core.supervisor.tree import APP_MARKER, libc
from torchx_core.supervisor.zygote import LONGEST_OFFER, address_of, is_mine

__all__ = ["IDLE_VARIABLE", "ask_zygote", "idle_s", "zygote_name"]

IDLE_VARIABLE: Final = "TORCHX_ZYGOTE_IDLE_S"
"""Environment variable: for how many seconds a zygote waits for the next submit; 0 for none at all."""
_IDLE_S: Final = 30.0
_ANSWER_S: Final = 2.0
"""How long a zygote may take; a program is started after that."""
_NUMBERS: Final = 64
"""Bytes for the descriptors that become a part of the guardian's command."""
_STATUS: Final = (
    b"Umask:",
    b"Uid:",
    b"Gid:",
    b"Groups:",
    b"Cap",
    b"NoNewPrivs:",
    b"Seccomp:",
    b"Cpus_allowed:",
    b"Mems_allowed:",
    b"THP_enabled:",
)
"""What of a process's ``status`` a child has of its parent."""
_INHERITED: Final = (
    "cgroup",
    "limits",
    "oom_score_adj",
    "sessionid",
    "loginuid",
    "attr/current",
    "timerslack_ns",
    "personality",
    "coredump_filter",
)
_IOPRIO_GET: Final = {"x86_64": 252, "aarch64": 31}
"""The number of the system call ioprio_get(2)."""
_IOPRIO_WHO_PROCESS: Final = 1
_SPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts")


def idle_s() -> float:
    """Return how long a zygote that is started now waits for submits, in seconds; 0 for none."""
    try:
        return max(0.0, float(os.environ.get(IDLE_VARIABLE, _IDLE_S)))
    except ValueError:
        return _IDLE_S


def zygote_name(package_root: str) -> str | None:
    """Return the name of the zygote whose children are as ours would be; None where there can be none.

    Whatever passes from a process to its children is a part of the name, and so is the supervisor's code. The
    environment is not, for a guardian is given its own. A process of an app has none: what the app started
    ends with the app, and a zygote would be a part of that.
    """
    if sys.platform != "linux" or not idle_s() or APP_MARKER in os.environ:
        return None
    try:
        marks = [idle_s(), *_inherited(), _code(package_root)]
    except OSError:
        return None
    return hashlib.sha256(repr(marks).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _inherited() -> Iterator[object]:
    """Yield what a child has of us.

    Raises:
        OSError: It cannot be told: there is no ``/proc``.
    """
    with open("/proc/thread-self/status", "rb") as file:
        yield [line for line in file if line.startswith(_STATUS)]
    for name in _INHERITED:
        with suppress(OSError), open(f"/proc/self/{name}", "rb") as file:
            yield name, file.read()
    yield [os.readlink(f"/proc/thread-self/ns/{name}") for name in _SPACES]
    yield os.readlink("/proc/thread-self/root"), os.getpriority(os.PRIO_PROCESS, 0), _io_priority()
    yield os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, _memory_policy()
    yield sys.getfilesystemencoding()


def _io_priority() -> int:
    """Return what ``ionice`` has set; -1 where that cannot be told. The C library has no function for it."""
    number = _IOPRIO_GET.get(os.uname().machine)
    return -1 if number is None else libc().syscall(number, _IOPRIO_WHO_PROCESS, 0)


def _memory_policy() -> bytes:
    """Return what ``numactl`` has set, as ``interleave:0-1``; ``default`` also where there is no NUMA."""
    try:
        fd = os.open("/proc/thread-self/numa_maps", os.O_RDONLY)
    except OSError:
        return b"default"
    try:  # so little is asked for that the kernel looks at the first mapping alone: an address, its policy
        return b"".join(os.read(fd, 64).split()[1:2])
    finally:
        os.close(fd)


@cache
def _code(package_root: str) -> object:
    """Return what changes when another release, or another Python, takes the place of this one."""
    package = os.path.join(package_root, "torchx_core", "supervisor")
    with os.scandir(package) as entries:
        files = sorted(
            (entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.name.endswith(".py")
        )
    python = os.stat(sys.executable)
    return sys.executable, python.st_ino, python.st_mtime_ns, sys.version, package, files


def ask_zygote(name: str, command: Sequence[str], fds: Sequence[int], env: Mapping[str, str]) -> bool:
    """Have the zygote become an app's guardian; false when it cannot, and then it will not.

    Args:
        name: Of the zygote.
        command: The guardian's, without descriptors; its last word is the app's directory.
        fds: Control pipe, lock, life sign and log.
        env: The guardian's environment.
    """
    import socket

    request = os.fsencode("\0".join(command))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as zygote:
            zygote.settimeout(_ANSWER_S)
            zygote.connect(address_of(name))
            if not is_mine(zygote) or len(request) + _NUMBERS > int(zygote.recv(LONGEST_OFFER) or 0):
                return False
            with os.fdopen(os.memfd_create("environment"), "r+b") as environment:
                # As /proc/PID/environ has it.
                environment.writelines(os.fsencode(f"{key}={value}") + b"\0" for key, value in env.items())
                environment.seek(0)
                socket.send_fds(zygote, [request], [*fds, environment.fileno()])
    except OSError:
        return False
    return True
