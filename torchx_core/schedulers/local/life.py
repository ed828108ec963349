"""Tells whether an app is served, and ends one that nobody serves any more.

A reader does this, whoever it is: there is no daemon. Liveness is a lock that the kernel takes away with its
last holder, so no process id is ever trusted to be the process it once was.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time

from torchx_core.schedulers.local.record import AppRecord, boot_id
from torchx_core.schedulers.locks import locked
from torchx_core.supervisor import machine
from torchx_core.supervisor.closing import close_lost, has_begun, state_on_disk
from torchx_core.supervisor.final import read_final
from torchx_core.supervisor.journal import read_journal
from torchx_core.supervisor.limits import group_prefix, remove_groups
from torchx_core.supervisor.records import CANCEL, JOURNAL, LOCK, SUPERVISOR_LOG, read_json
from torchx_core.supervisor.tree import descendants, is_zombie, kill, marked

__all__ = ["REAP_LOCK", "is_served", "settle"]

REAP_LOCK = "reap.lock"

PATIENCE_S = 5.0
"""How long after the grace period a supervisor that does not act on a cancel is given up."""


def is_served(record: AppRecord) -> bool:
    """Return whether a supervisor or guardian (or a launcher about to start them) lives."""
    try:
        fd = os.open(record.path(LOCK), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def settle(record: AppRecord) -> machine.State:
    """Return the app's true state, after making it true where its supervisor no longer can."""
    ended = read_final(record.directory)
    if ended is not None:
        return ended
    if is_served(record):
        state = state_on_disk(record.directory, record.plan)
        _give_up_on_stuck(record, state)
        return state
    return _close(record)


def _close(record: AppRecord) -> machine.State:
    with locked(record.path(REAP_LOCK)):
        ended = read_final(record.directory)
        if ended is not None:
            return ended
        if is_served(record):  # somebody started it meanwhile
            return state_on_disk(record.directory, record.plan)
        _kill_leftovers(record)
        remove_groups(group_prefix(record.incarnation))
        return close_lost(record.directory, record.plan, _why(record))


def _why(record: AppRecord) -> str:
    if record.boot_id != boot_id():
        return "the host was rebooted"
    if not has_begun(record.directory):
        why = "its submitter died first, or its supervisor could not run"
        return f"it was never started: {why}{_last_words(record)}"
    return "its supervisor and guardian were both killed"


def _last_words(record: AppRecord) -> str:
    try:
        with open(record.path(SUPERVISOR_LOG), errors="replace") as file:
            words = file.read().strip()
    except OSError:
        return ""
    return f": {words[-300:]}" if words else ""


def _kill_leftovers(record: AppRecord) -> None:
    if record.boot_id != boot_id():
        return
    while pids := list(marked(record.directory)):
        for pid in pids:
            for victim in (pid, *descendants(pid, record.directory)):
                kill(victim, signal.SIGKILL)
        if all(is_zombie(pid) for pid in pids):
            return


def _give_up_on_stuck(record: AppRecord, state: machine.State) -> None:
    """Kill a supervisor that does not serve a cancel (stopped, wedged); its guardian then cleans up."""
    wish = read_json(record.path(CANCEL))
    if wish is None or state.phase == machine.ENDED:
        return
    grace = wish.get("grace_s")
    grace_s = float(grace) if isinstance(grace, int | float) else record.plan.grace_s
    asked = wish.get("monotonic")
    if isinstance(asked, int | float) and time.monotonic() - asked > grace_s + PATIENCE_S:
        for event in read_journal(record.path(JOURNAL)):
            if isinstance(event, machine.Began):
                _kill_supervisor(record, event.supervisor_pid)


def _kill_supervisor(record: AppRecord, pid: int) -> None:
    """Kill the process, if it is this app's supervisor and not another that got its number."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if os.fsencode(record.directory) in file.read().split(b"\0"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return
    finally:
        os.close(handle)
