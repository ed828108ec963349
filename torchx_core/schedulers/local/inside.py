"""Runs a command as if a replica had started it: its environment, working directory and control group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from torchx_core.errors import ReplicaNotRunningError, SchedulerError
from torchx_core.schedulers.attached import BECOME
from torchx_core.schedulers.local.record import AppRecord, boot_id
from torchx_core.schedulers.local.view import replica_state
from torchx_core.supervisor import machine
from torchx_core.supervisor.limits import entrance, groups_of
from torchx_core.supervisor.tree import session_of

__all__ = ["step_inside"]

# Becomes the command, with the environment of the replica's program. It joins the control groups of that,
# as only a process itself can.
_ENTER: Final = r"""
import os, sys
pid, cwd, *rest = sys.argv[1:]
groups, argv = rest[:rest.index("--")], rest[rest.index("--") + 1:]
try:
    with open("/proc/%s/environ" % pid, "rb") as file:
        env = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
    for group in groups:
        with open(group, "w") as file:
            file.write(str(os.getpid()))
    os.chdir(cwd)
except OSError as err:
    sys.exit("torchx: cannot go inside: %s" % err)
"""


def step_inside(
    record: AppRecord, state: machine.State, index: int, argv: Sequence[str], app_handle: str
) -> list[str]:
    """Return the command line of a program that becomes the command, on this host.

    Args:
        record: The app.
        state: How it stands.
        index: Of the replica.
        argv: The command.
        app_handle: For messages.

    Raises:
        ReplicaNotRunningError: It has ended, or has not started.
        SchedulerError: Its processes are not to be seen from here, or are another user's.
    """
    replica = state.replicas[index]
    if replica.phase != machine.UP:
        found = replica_state(replica).name
        raise ReplicaNotRunningError(app_handle, replica.role, replica.replica_id, found)
    if record.boot_id != boot_id() or session_of(replica.pid) != replica.pid:
        raise SchedulerError(
            f"the processes of {app_handle} are not to be seen from here: it runs on another host, or in"
            " another container; run the command there"
        )
    try:
        with open(f"/proc/{replica.pid}/environ", "rb") as file:
            file.read(1)
    except PermissionError as err:
        raise SchedulerError(f"cannot go inside {app_handle}: its processes are another user's") from err
    except OSError:
        raise ReplicaNotRunningError(app_handle, replica.role, replica.replica_id, "ending") from None
    groups = [entrance(directory) for directory in groups_of(replica.pid, record.incarnation)]
    cwd = record.plan.replicas[index].cwd
    return [sys.executable, "-I", "-S", "-c", _ENTER + BECOME, str(replica.pid), cwd, *groups, "--", *argv]
