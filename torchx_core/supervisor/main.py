"""What the launcher runs: a guardian, and below it the supervisor.

The guardian does nothing but wait. When the supervisor dies without having ended the app (``kill -9``, a
bug), every process of the app falls to the guardian, which kills them all and records what happened. So one
death leaks nothing; it takes two at once to leave work to the next reader (`torchx_core.schedulers.local`).
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from errno import errorcode
from typing import NoReturn, cast

from torchx_core.supervisor.closing import close_lost, has_begun
from torchx_core.supervisor.driver import Supervisor
from torchx_core.supervisor.final import read_final
from torchx_core.supervisor.limits import group_prefix, leave_groups, remove_groups
from torchx_core.supervisor.plan import Plan, decode_plan
from torchx_core.supervisor.records import SPEC, Json, read_json
from torchx_core.supervisor.signals import signal_name
from torchx_core.supervisor.tree import adopt_orphans, has_only_strangers, kill_descendants
from torchx_core.supervisor.zygote import leave_behind

_PAUSE_S = 0.01
_ERRNO = 100
"""Exit codes of a supervisor above this one name the operating system's error that ended it."""


def main(app_dir: str, ctl: int, inherited: list[int]) -> NoReturn:
    """Serve the app in `app_dir` to its end.

    Args:
        app_dir: Where the launcher has put the record.
        ctl: The control pipe's descriptor.
        inherited: The lock's and the life sign's descriptors. Nobody reads or writes them: that they are
            open says that we live, and the kernel closes them whatever happens to us.
    """
    for fd in (ctl, *inherited):
        os.set_inheritable(fd, False)  # noqa: FBT003  # its parameter has no name
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # A launcher that takes its signals by sigwait blocks them in its threads; fork, exec and sh pass it on.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _leave_launcher()
    leave_behind(main)
    leave_groups()
    adopt_orphans()
    record = cast("Json", read_json(os.path.join(app_dir, SPEC)))
    plan = decode_plan(cast("Json", record["plan"]))
    name = str(record["incarnation"])
    if has_begun(app_dir):
        os._exit(0)  # there was a supervisor: an app is never run twice
    pid = os.fork()
    if pid == 0:
        _supervise(app_dir, name, plan, ctl)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.close(ctl)
    _guard(app_dir, name, plan, pid)


def _leave_launcher() -> None:
    """Get out of the launcher's session and directory."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    os.chdir("/")


def _supervise(app_dir: str, name: str, plan: Plan, ctl: int) -> NoReturn:
    code = 1
    try:
        adopt_orphans()  # does not pass to a fork
        Supervisor(app_dir, name, plan, ctl).run()
        code = 0
    except BaseException as err:  # noqa: BLE001  # the last place: the guardian must learn of it
        import traceback  # imported here: 2 ms that a healthy start does not pay

        if isinstance(err, OSError) and err.errno is not None and err.errno in errorcode:
            code = _ERRNO + err.errno
        with suppress(OSError):  # the log may have no room either
            traceback.print_exc()
            sys.stderr.flush()
    os._exit(code)


def _guard(app_dir: str, name: str, plan: Plan, supervisor: int) -> NoReturn:
    """Wait for the supervisor's end and see that nothing outlives it."""
    _, status = os.waitpid(supervisor, 0)
    # After exit code 0 the record is there, or was deleted and its place may be another app's.
    if status != 0 and read_final(app_dir) is None:
        _kill_all(app_dir)
        remove_groups(group_prefix(name))
        close_lost(app_dir, plan, how_it_ended(status))
    os._exit(0)


def _kill_all(app_dir: str) -> None:
    """Kill every process of the app until the kernel says that we have no child but those of other apps."""
    while True:
        kill_descendants(os.getpid(), app_dir)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # each walk costs: take all that have ended before the next
        except ChildProcessError:
            return
        if has_only_strangers(os.getpid(), app_dir):
            return
        select.select([], [], [], _PAUSE_S)


def how_it_ended(status: int) -> str:
    """Say how a supervisor ended, by what wait(2) tells of it."""
    if os.WIFSIGNALED(status):
        return (
            f"its supervisor was killed by {signal_name(os.WTERMSIG(status))}; all its processes were killed"
        )
    code = os.WEXITSTATUS(status)
    why = f": {os.strerror(code - _ERRNO)}" if code - _ERRNO in errorcode else f" with exit code {code}"
    return f"its supervisor failed{why}; see supervisor.log beside its record"
