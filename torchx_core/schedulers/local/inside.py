"""Runs a command as if a replica had started it: its environment, working directory and control group."""

from __future__ import annotations

from collections.abc import Sequence

from torchx_core.errors import ReplicaNotRunningError, SchedulerError
from torchx_core.schedulers.attached import run_attached
from torchx_core.schedulers.local.record import AppRecord, boot_id
from torchx_core.schedulers.local.view import replica_state
from torchx_core.supervisor import machine
from torchx_core.supervisor.limits import entrance, groups_of
from torchx_core.supervisor.tree import session_of

__all__ = ["run_inside"]

_ENTER = """
while [ "$1" != -- ]; do
  echo $$ >"$1" || exit 126
  shift
done
shift
exec "$@"
"""
"""Joins control groups, as only a process itself can before its program is there."""


def run_inside(
    record: AppRecord, state: machine.State, index: int, argv: Sequence[str], app_handle: str
) -> int:
    """Run the command on this process's standard streams and return its exit code.

    Args:
        record: The app.
        state: How it stands.
        index: Of the replica.
        argv: The command.
        app_handle: For messages.

    Raises:
        ReplicaNotRunningError: It has ended, or has not started.
        SchedulerError: Its processes are not to be seen from here, or the command cannot be started.
    """
    import psutil  # here: only who goes inside needs it

    replica = state.replicas[index]
    if replica.phase != machine.UP:
        raise ReplicaNotRunningError(
            app_handle, replica.role, replica.replica_id, replica_state(replica).name
        )
    if record.boot_id != boot_id() or session_of(replica.pid) != replica.pid:
        raise SchedulerError(
            f"the processes of {app_handle} are not to be seen from here: it runs on another host, or in"
            " another container; run the command there"
        )
    try:
        env = psutil.Process(replica.pid).environ()
    except psutil.NoSuchProcess:
        raise ReplicaNotRunningError(app_handle, replica.role, replica.replica_id, "ending") from None
    except psutil.AccessDenied as err:
        problem = f"cannot go inside {app_handle}: its processes are another user's"
        raise SchedulerError(problem) from err
    groups = [entrance(directory) for directory in groups_of(replica.pid, record.incarnation)]
    words = ["/bin/sh", "-c", _ENTER, "torchx", *groups, "--", *argv]
    return run_attached(words, env=env, cwd=record.plan.replicas[index].cwd)
