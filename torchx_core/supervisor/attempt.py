"""One running attempt of one replica, as the supervisor holds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import NamedTuple

from torchx_core.supervisor import machine, timeline
from torchx_core.supervisor.limits import Group, confine, group_prefix
from torchx_core.supervisor.plan import Plan, ReplicaPlan
from torchx_core.supervisor.reading import read_error_file
from torchx_core.supervisor.records import REPORT_PIPE
from torchx_core.supervisor.relay import Channel, Relay, Sink
from torchx_core.supervisor.reports import ReportPipe
from torchx_core.supervisor.spawn import (
    CannotStart,
    Program,
    Ready,
    finish,
    get_ready,
    output_pipe,
    search_path,
)
from torchx_core.supervisor.tree import APP_MARKER

ERROR_FILE = "error.json"
RANK0_PORT = "TORCHX_RANK0_PORT"
"""Variable with the port on which the replicas of a role can meet; never that of an app around this one."""
DEADLINE = "TORCHX_DEADLINE"
"""Variable with when the app is ended for its time being over, in seconds since the epoch; likewise."""


class HostShare(NamedTuple):
    """What of the host the replica has to itself, or with the others of its role."""

    gpus: str | None
    """Its devices, as CUDA_VISIBLE_DEVICES names them; None to leave that as it is."""
    port: int | None
    """Where it meets the others; None when it has none."""
    until: float | None
    """When the app is ended for its time being over, in seconds since the epoch; None for never."""
    nofile: tuple[int, int]
    """How many files it may have open: its limit, and how far it may raise that."""
    env: Mapping[str, str]
    """The variables of its submitter."""


class Attempt(NamedTuple):
    """What belongs to one attempt."""

    replica: int
    number: int
    pid: int
    directory: str
    sink: Sink
    channels: tuple[Channel, ...]
    reports: ReportPipe
    group: Group

    def error(self) -> str:
        """Return what the program wrote about its own failure; nothing if it cannot be read or is no JSON."""
        try:
            return read_error_file(os.path.join(self.directory, ERROR_FILE))
        except OSError:
            return ""


class Launch(NamedTuple):
    """An attempt that is prepared, and whose program is about to run."""

    start: machine.Start
    attempt: Attempt
    """What it will be, but for the process id."""
    ready: Ready
    undo: ExitStack
    """Takes back what was prepared."""

    def finish(self, pid: int) -> Attempt:
        """Return the attempt once its program, of which that is the process, runs.

        Raises:
            CannotStart: It does not run; what was prepared is taken back.
        """
        with self.undo as undo:
            finish(self.ready, pid)
            undo.pop_all()
        return self.attempt._replace(pid=pid)


def prepare(
    plan: Plan,
    start: machine.Start,
    *,
    app_dir: str,
    name: str,
    relay: Relay,
    listen: Callable[[Channel], Callable[[], None]],
    share: HostShare,
) -> Launch:
    """Prepare the attempt's limits, directory and pipes.

    Args:
        plan: The app.
        start: Which attempt of which replica.
        app_dir: The app's directory.
        name: What its groups are called by.
        relay: Where its output goes.
        listen: Called with each output before the program can write there; what it returns ends that, and is
            called if the program does not run after all.
        share: What of the host the replica has.

    Raises:
        CannotStart: A limit that it requires cannot be set, or the directory or a pipe cannot be made.
    """
    index, number = start
    replica = plan.replicas[index]
    directory = os.path.join(replica.log_dir, str(number))
    with _preparing(), ExitStack() as undo:
        group = _confine(plan, index, f"{group_prefix(name)}{index}-{number}")
        undo.callback(group.remove)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        _point_at(replica.log_dir, str(number))
        reports = ReportPipe(os.path.join(app_dir, REPORT_PIPE.format(replica=index, attempt=number)))
        undo.callback(reports.remove)
        undo.callback(reports.pipe.close)
        env = {
            **_environment(replica, directory, number, app_dir, share),
            "TORCHX_REPORT_FILE": reports.path,
        }
        program = Program(replica.argv, env, replica.cwd, group.entrances, share.nofile)
        sink = relay.sink(directory, index, number)
        channels: list[Channel] = []
        ends: list[FileIO] = []
        for kind in (timeline.STDOUT, timeline.STDERR):
            ours, end = output_pipe(exact=plan.log_mode == "exact")
            ends.append(end)
            undo.callback(end.close)
            channels.append(Channel(ours, kind, sink))
            undo.callback(listen(channels[-1]))
        ready = get_ready(program, *ends)
        undo.callback(ready.close)
        attempt = Attempt(index, number, 0, directory, sink, tuple(channels), reports, group)
        return Launch(start, attempt, ready, undo.pop_all())


@contextmanager
def _preparing() -> Generator[None]:
    try:
        yield
    except OSError as err:
        raise CannotStart(f"cannot prepare {err.filename}: {err.strerror}", fatal=False) from err


def _confine(plan: Plan, index: int, name: str) -> Group:
    replica = plan.replicas[index]
    if plan.limits == "off":
        return Group((), "", "")
    group = confine(name, cpu=replica.cpu, mem_mb=replica.mem_mb)
    if group.missing and plan.limits == "require":
        group.remove()
        raise CannotStart(group.missing, fatal=True)
    return group


def _point_at(log_dir: str, number: str) -> None:
    """Let ``current`` name the newest attempt."""
    current, temporary = os.path.join(log_dir, "current"), os.path.join(log_dir, f".current.{number}")
    with suppress(OSError):  # a convenience for people: nothing depends on it
        try:
            os.symlink(number, current)
        except FileExistsError:
            os.symlink(number, temporary)
            os.replace(temporary, current)


def _environment(
    replica: ReplicaPlan, directory: str, number: int, app_dir: str, share: HostShare
) -> Mapping[str, str]:
    inherited = {name: value for name, value in share.env.items() if name not in (RANK0_PORT, DEADLINE)}
    meeting = {} if share.port is None else {RANK0_PORT: str(share.port)}
    until = {} if share.until is None else {DEADLINE: f"{share.until:.3f}"}
    env = {
        **inherited,
        **meeting,
        **until,
        "TORCHELASTIC_ERROR_FILE": os.path.join(directory, ERROR_FILE),
        "PET_LOG_DIR": os.path.join(directory, "torchelastic"),
        **replica.env,
        "PATH": search_path(replica.env.get("PATH", ""), share.env.get("PATH"), replica.cwd),
        "TORCHX_ATTEMPT": str(number),
        APP_MARKER: app_dir,
    }
    if share.gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = share.gpus
    return env
