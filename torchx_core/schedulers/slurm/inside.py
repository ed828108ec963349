"""The command that goes inside a replica: a step of the job that shares all that the job has, on its node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, cast

from torchx_core.errors import ReplicaNotRunningError, SchedulerError
from torchx_core.schedulers.attached import BECOME
from torchx_core.schedulers.slurm.facts import Facts
from torchx_core.schedulers.slurm.record import PLAN, AppRecord
from torchx_core.supervisor.reading import read_object
from torchx_core.supervisor.records import Json

__all__ = ["step_inside"]

# Runs on the node, on any Python from 3.7 on: becomes the command, with the environment of the program.
_ENTER: Final = r"""
import os, sys
mark, cwd, argv = b"TORCHX_REPORT_FILE=" + os.fsencode(sys.argv[1]), sys.argv[2], sys.argv[3:]
found = []
for name in os.listdir("/proc"):
    try:
        with open("/proc/%s/environ" % int(name), "rb") as file:
            env = file.read().split(b"\0")
        if mark in env and os.getsid(int(name)) == int(name):
            with open("/proc/%s/stat" % name, "rb") as file:
                found.append((int(file.read().rpartition(b")")[2].split()[19]), name, env))
    except (OSError, ValueError):
        continue
if not found:
    sys.exit("torchx: the replica's program is not on this node: it has ended, or is another user's")
_, name, env = min(found)
os.chdir(cwd or os.readlink("/proc/%s/cwd" % name))
env = dict(item.split(b"=", 1) for item in env if b"=" in item)
"""


def step_inside(
    record: AppRecord, facts: Facts, index: int, argv: Sequence[str], *, terminal: bool, app_handle: str
) -> list[str]:
    """Return srun's command line.

    Args:
        record: The app.
        facts: Its files.
        index: Of the replica.
        argv: The command.
        terminal: It is to have one.
        app_handle: For messages.

    Raises:
        ReplicaNotRunningError: The replica has ended, or has not begun.
        SchedulerError: What the nodes run is not written down any more.
    """
    planned, attempts = record.replicas[index], facts.attempts[index]
    if facts.job_id is None or not attempts or attempts[-1].code is not None:
        state = "ending" if attempts else "PENDING"
        raise ReplicaNotRunningError(app_handle, planned.role, planned.replica, state)
    with record.naming_damage():
        plan = read_object(record.path(PLAN))
    if plan is None:
        raise SchedulerError(f"cannot go inside {app_handle}: its {PLAN} is gone")
    roles = [role.name for role in record.app.roles]
    mine = cast("list[Json]", plan["replicas"])[index]
    group = [f"--het-group={roles.index(planned.role)}"] if len(roles) > 1 else []
    report_file = os.path.join(planned.log_dir, str(attempts[-1].number), "reports.jsonl")
    return [
        *("srun", f"--jobid={facts.job_id}", *group, f"--nodelist={attempts[-1].host}"),
        *("--overlap", "--nodes=1", "--ntasks=1", "--quiet"),
        *(["--pty"] if terminal else ["--unbuffered", "--quit-on-interrupt"]),
        *cast("list[str]", plan["python"]),
        *("-c", _ENTER + BECOME, report_file, str(mine["cwd"]), *argv),
    ]
