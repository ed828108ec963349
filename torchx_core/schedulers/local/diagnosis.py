"""Looks at what local apps need of this host: a state directory that keeps its promises, limits, wake-ups."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from torchx_core.errors import SchedulerError, StoredStateError
from torchx_core.schedulers import Finding, Verdict
from torchx_core.schedulers.local.devices import VISIBLE, host_gpus
from torchx_core.schedulers.local.host_check import FILES_OF_ITS_OWN, FILES_PER_REPLICA, check_file_system
from torchx_core.schedulers.local.inotify import Inotify
from torchx_core.schedulers.local.liveness import reconcile
from torchx_core.schedulers.local.record import AppRecord, boot_id
from torchx_core.schedulers.stored import handle_of
from torchx_core.supervisor.limits import confine

__all__ = ["diagnose"]

_SMALL_BYTES: Final = 1_000_000_000
_FEW_REPLICAS: Final = 64
_FEW_PROCESSES: Final = 1024
_LOCAL_DISK: Final = "set TORCHX_STATE_DIR to a directory on a local disk"


def diagnose(state_dir: str, backend: str, gpus: tuple[str, ...] | None) -> list[Finding]:
    """Return what was found; see `Scheduler.diagnose`.

    Args:
        state_dir: Where the records of all local schedulers lie.
        backend: Whose records to count.
        gpus: The devices to hand out; None to ask the driver.
    """
    findings = list(_state_dir(state_dir))
    if findings[0].verdict is not Verdict.PROBLEM:
        findings += [_locks(state_dir), _records(os.path.join(state_dir, backend))]
    return [*findings, _wake_ups(), _groups(), _open_files(), _processes(), _clock(), _devices(gpus)]


def _found(subject: str, verdict: Verdict, text: str, advice: str = "") -> Finding:
    return Finding(subject=subject, verdict=verdict, text=text, advice=advice)


def _state_dir(path: str) -> Iterator[Finding]:
    subject, place = "state directory", _existing_parent(path)
    try:
        check_file_system(place)
        tempfile.TemporaryDirectory(prefix=".doctor-", dir=place).cleanup()
    except SchedulerError:
        yield _found(subject, Verdict.PROBLEM, f"{path} is on a network file system", _LOCAL_DISK)
        return
    except OSError as err:
        yield _found(subject, Verdict.PROBLEM, f"{place} cannot be written: {err.strerror}", _LOCAL_DISK)
        return
    yield _found(subject, Verdict.OK, path if place == path else f"{path}, made by the first app")
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    verdict = Verdict.OK if free >= _SMALL_BYTES else Verdict.WARNING
    advice = (
        "" if verdict is Verdict.OK else "torchx-core prune deletes old apps; logs may go to another disk"
    )
    yield _found("free space", verdict, f"{free / 1e9:.1f} GB", advice)


def _existing_parent(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _locks(state_dir: str) -> Finding:
    """Try what every app relies on, on that very file system."""
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=_existing_parent(state_dir)) as folder:
            os.mkfifo(os.path.join(folder, "fifo"))
            with open(os.path.join(folder, "lock"), "w") as first, open(first.name) as second:
                fcntl.flock(first, fcntl.LOCK_EX)
                with suppress(BlockingIOError):
                    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return _found("locks", Verdict.PROBLEM, "two processes can hold one lock", _LOCAL_DISK)
    except OSError as err:
        text = f"no locks or named pipes in the state directory: {err.strerror}"
        return _found("locks", Verdict.PROBLEM, text, _LOCAL_DISK)
    return _found("locks", Verdict.OK, "locks and named pipes work in the state directory")


def _records(directory: str) -> Finding:
    count, size, unusable = 0, 0, list[str]()
    for folder in _app_dirs(directory):
        try:
            record = AppRecord.read_from(folder)
            if record is not None:
                reconcile(record)  # reads the rest
                count += 1
                size += record.size_bytes
        except StoredStateError:
            unusable.append(handle_of(folder))
        except OSError:
            continue  # deleted while we look
    text = f"{count} apps, {size / 1e6:.1f} MB"
    if unusable:
        text = f"{text}; {len(unusable)} cannot be read: {', '.join(sorted(unusable)[:3])}"
        advice = (
            "torchx-core delete --force HANDLE forgets a damaged one; newer ones need a newer torchx-core"
        )
        return _found("records", Verdict.WARNING, text, advice)
    return _found("records", Verdict.OK, text)


def _app_dirs(directory: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        for session in os.scandir(directory):
            yield from (app.path for app in os.scandir(session.path) if not app.name.startswith("."))


def _wake_ups() -> Finding:
    try:
        Inotify().close()
    except OSError as err:
        text = f"no inotify instance to be had ({err.strerror}): logs arrive later, and following costs more"
        advice = "raise fs.inotify.max_user_instances, or follow fewer apps at once"
        return _found("wake-ups", Verdict.WARNING, text, advice)
    allowed = _read("/proc/sys/fs/inotify/max_user_instances")
    return _found("wake-ups", Verdict.OK, f"inotify works; {allowed or 'unknown'} instances per user")


def _groups() -> Finding:
    group = confine(f"torchx-doctor-{os.getpid()}", cpu=1.0, mem_mb=64)
    group.remove()
    if group.missing:
        text = "memory and cores of a role cannot be enforced: no writable control group"
        advice = "delegate one to this user (systemd: Delegate=yes), or set limits=off to be silent about it"
        return _found("control groups", Verdict.WARNING, text, advice)
    return _found("control groups", Verdict.OK, "memory and cores of a role are enforced")


def _open_files() -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        return _found("open files", Verdict.OK, "no limit")
    replicas = max(0, (hard - FILES_OF_ITS_OWN) // FILES_PER_REPLICA)
    text = f"{hard}, enough for {replicas} replicas of one app"
    if replicas < _FEW_REPLICAS:
        return _found("open files", Verdict.WARNING, text, "raise the hard limit (ulimit -Hn)")
    return _found("open files", Verdict.OK, text)


def _processes() -> Finding:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft == resource.RLIM_INFINITY:
        return _found("processes", Verdict.OK, "no limit")
    few = soft < _FEW_PROCESSES
    advice = "raise the limit (ulimit -u)" if few else ""
    return _found("processes", Verdict.WARNING if few else Verdict.OK, f"{soft} for this user", advice)


def _clock() -> Finding:
    if not boot_id():
        text = "this system has no boot id: apps that a reboot ended are noticed by their lock alone"
        return _found("clock", Verdict.WARNING, text, "none; use Linux where that matters")
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    if asleep > 1:
        text = f"this host slept for {asleep:.0f} s since its boot; timeouts and leases stood still meanwhile"
        return _found("clock", Verdict.WARNING, text, "use the option deadline where the time of day counts")
    return _found("clock", Verdict.OK, f"Linux {platform.release()}, never asleep since its boot")


def _devices(gpus: tuple[str, ...] | None) -> Finding:
    found = host_gpus() if gpus is None else gpus
    if not found:
        why = (
            "nvidia-smi lists none" if gpus is not None or VISIBLE not in os.environ else f"none in {VISIBLE}"
        )
        return _found("GPUs", Verdict.ABSENT, why)
    return _found("GPUs", Verdict.OK, f"{len(found)}: {', '.join(found)}")


def _read(path: str) -> str:
    with suppress(OSError), open(path) as file:
        return file.read().strip()
    return ""
