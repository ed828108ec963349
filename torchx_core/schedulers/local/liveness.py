"""Tells whether an app is served, and ends one that nobody serves any more.

A reader does this, whoever it is: there is no daemon. Liveness is a lock that the kernel takes away with its
last holder, so no process id is ever trusted to be the process it once was.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.local.cancelling import grace_end
from torchx_core.schedulers.local.record import AppRecord, boot_id
from torchx_core.schedulers.locks import is_locked
from torchx_core.supervisor import machine
from torchx_core.supervisor.closing import close_lost, has_begun
from torchx_core.supervisor.final import read_final
from torchx_core.supervisor.journal import read_journal
from torchx_core.supervisor.limits import group_prefix, remove_groups
from torchx_core.supervisor.reading import DamagedFile, read_bytes
from torchx_core.supervisor.records import CANCEL, FINAL, JOURNAL, LOCK, SUPERVISOR_LOG, read_json
from torchx_core.supervisor.tree import descendants, kill, marked, serves, serving

__all__ = ["REAP_LOCK", "end_by_force", "end_orphans", "is_served", "reconcile", "reconcile_begun"]

REAP_LOCK = "reap.lock"

PATIENCE_S = 5.0
"""How long after the grace period a supervisor that does not act on a cancel is given up."""
_PAUSE_S = 0.05
KILL_PATIENCE_S = 5.0
"""How long a process may take to end that was killed."""
_KILL_PAUSE_S = 0.005
BEGIN_S = 0.5
"""How long after its submit an app is looked at as one whose supervisor is about to begin."""
_BEGIN_PAUSE_S = 0.005
_GUARDIANS_SHARE = 6
"""How many times as long its guardian has: it may be killing a crowd, more surely than a reader can."""


def is_served(record: AppRecord) -> bool:
    """Return whether a supervisor or guardian (or a launcher about to start them) lives."""
    try:
        with record.naming_damage():
            return is_locked(record.path(LOCK))
    except FileNotFoundError:
        return False


def reconcile(record: AppRecord) -> machine.State:
    """Return the app's true state, after making it true where its supervisor no longer can.

    Raises:
        CorruptRecordError: Its files cannot say.
    """
    with record.naming_damage():
        state = _reconcile(record)
        if len(state.replicas) != len(record.plan.replicas):
            raise DamagedFile(record.path(FINAL), "tells of other replicas than were submitted")
        return state


def reconcile_begun(record: AppRecord) -> machine.State:
    """Do the same; of an app that was submitted just now, wait for what its supervisor does first.

    Else who looks right after a submit, as scripts written for TorchX do, finds an app that does not run. One
    that waits for GPUs is not waited for, nor is any longer than `BEGIN_S` after its submit.
    """
    state = reconcile(record)
    until = time.monotonic() + min(BEGIN_S, record.created_at + BEGIN_S - time.time())
    while state.phase == machine.SUBMITTED and not record.plan.gpu_ids and time.monotonic() < until:
        time.sleep(_BEGIN_PAUSE_S)  # noqa: TID251  # no feed is open that would tell
        state = reconcile(record)
    return state


def _reconcile(record: AppRecord) -> machine.State:
    ended = read_final(record.directory)
    if ended is not None:
        return ended
    if is_served(record):
        state = record.replay.state()
        _give_up_on_stuck(record, state)
        return state
    return _close(record)


def _close(record: AppRecord) -> machine.State:
    with record.locked(REAP_LOCK):
        ended = read_final(record.directory)
        if ended is not None:
            return ended
        if is_served(record):  # somebody started it meanwhile
            return record.replay.state()
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
        words = read_bytes(record.path(SUPERVISOR_LOG)).decode("utf-8", "replace").strip()
    except (OSError, DamagedFile):
        return ""
    return f": {words[-300:]}" if words else ""


def _kill_leftovers(record: AppRecord) -> None:
    if record.boot_id == boot_id():
        _kill_all(record.directory, lambda: marked(record.directory))


def _kill_all(directory: str, find: Callable[[], list[int]]) -> None:
    """Kill what is found, and all below it, until nothing of it lives.

    Raises:
        SchedulerError: Something does not end: it waits in the kernel, where no signal reaches it; retryable.
    """
    deadline = time.monotonic() + KILL_PATIENCE_S
    while pids := find():
        if time.monotonic() > deadline:
            raise SchedulerError(
                f"processes of {directory} do not end though they were killed: {', '.join(map(str, pids))};"
                " they wait for a disk or a file server (state D of ps); call again when that answers",
                retryable=True,
            )
        for pid in pids:
            for victim in (pid, *descendants(pid, directory)):
                kill(victim, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_S)  # noqa: TID251  # they are nobody's children here


def _give_up_on_stuck(record: AppRecord, state: machine.State) -> None:
    """End those who do not serve a cancel: stopped, wedged, or waiting for one who is.

    The supervisor is killed and the guardian woken, which then cleans up. A guardian that does not even then
    is killed as well, and the next reader cleans up.
    """
    cancel_request = read_json(record.path(CANCEL))
    if cancel_request is None or state.phase == machine.ENDED:
        return
    late_s = time.monotonic() - grace_end(record, cancel_request)
    if late_s > PATIENCE_S:
        events = read_journal(record.path(JOURNAL))
        supervisors = {event.supervisor_pid for event in events if isinstance(event, machine.Began)}
        for pid in serving(record.directory):
            lost = pid in supervisors or late_s > _GUARDIANS_SHARE * PATIENCE_S
            _signal(record, pid, signal.SIGKILL if lost else signal.SIGCONT)


def end_by_force(directory: str) -> None:
    """Kill whatever runs of an app whose record cannot be used, and who serves it.

    Raises:
        SchedulerError: Something does not end; retryable.
    """
    _kill_all(directory, lambda: serving(directory) + marked(directory))


def end_orphans(directory: str, patience_s: float) -> bool:
    """Have those who serve a deleted app end it, within its grace period; false if that takes long."""
    deadline = time.monotonic() + patience_s
    told: set[int] = set()
    while (servants := set(serving(directory))) or marked(directory):
        if time.monotonic() > deadline:
            return False
        if not servants:  # nobody who would end them
            end_by_force(directory)
        for pid in servants - told:
            kill(pid, signal.SIGTERM)  # the guardian does not mind, the supervisor ends its app
        told |= servants
        time.sleep(_PAUSE_S)  # noqa: TID251  # they are nobody's children here
    return True


def _signal(record: AppRecord, pid: int, number: signal.Signals) -> None:
    """Signal the process, if it serves this app and is not another that got its number."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if serves(pid) == record.directory:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)
