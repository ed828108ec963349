"""One running attempt of one replica, as the supervisor holds it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

from torchx_core.supervisor import timeline
from torchx_core.supervisor.limits import Group, confine, group_prefix
from torchx_core.supervisor.plan import Plan, ReplicaPlan
from torchx_core.supervisor.reading import read_error_file
from torchx_core.supervisor.records import REPORT_PIPE
from torchx_core.supervisor.relay import Channel, Relay, Sink
from torchx_core.supervisor.reports import ReportPipe
from torchx_core.supervisor.spawn import CannotStart, Program, start
from torchx_core.supervisor.tree import APP_MARKER

ERROR_FILE = "error.json"


class Attempt(NamedTuple):
    """What belongs to one attempt."""

    replica: int
    number: int
    pid: int
    directory: str
    sink: Sink
    channels: tuple[Channel, Channel]
    reports: ReportPipe
    group: Group

    def error(self) -> str:
        """Return what the program wrote about its own failure; nothing if it cannot be read or is no JSON."""
        try:
            return read_error_file(os.path.join(self.directory, ERROR_FILE))
        except OSError:
            return ""


def launch(
    plan: Plan,
    index: int,
    number: int,
    *,
    app_dir: str,
    name: str,
    relay: Relay,
    gpus: str | None,
    nofile: tuple[int, int],
) -> Attempt:
    """Prepare the attempt's limits, directory and pipes, and start its program.

    Raises:
        CannotStart: The program does not run, or a limit that it requires cannot be set.
        OSError: The directory or the report pipe cannot be made.
    """
    replica = plan.replicas[index]
    directory = os.path.join(replica.log_dir, str(number))
    with ExitStack() as undo:
        group = _confine(plan, index, f"{group_prefix(name)}{index}-{number}")
        undo.callback(group.remove)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        _point_at(replica.log_dir, str(number))
        reports = ReportPipe(os.path.join(app_dir, REPORT_PIPE.format(replica=index, attempt=number)))
        undo.callback(reports.remove)
        undo.callback(reports.pipe.close)
        env = {
            **_environment(replica, directory, number, app_dir, gpus),
            "TORCHX_REPORT_FILE": reports.path,
        }
        program = Program(replica.argv, env, replica.cwd, group.entrances, nofile)
        running = start(program, exact=plan.log_mode == "exact")
        undo.pop_all()
    sink = relay.sink(directory, index, number)
    out = Channel(running.stdout, timeline.STDOUT, sink)
    err = Channel(running.stderr, timeline.STDERR, sink)
    return Attempt(index, number, running.pid, directory, sink, (out, err), reports, group)


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
    temporary = os.path.join(log_dir, f".current.{number}")
    try:
        os.symlink(number, temporary)
        os.replace(temporary, os.path.join(log_dir, "current"))
    except OSError:
        return  # a convenience for people: nothing depends on it


def _environment(
    replica: ReplicaPlan, directory: str, number: int, app_dir: str, gpus: str | None
) -> Mapping[str, str]:
    env = {
        **os.environ,
        "TORCHELASTIC_ERROR_FILE": os.path.join(directory, ERROR_FILE),
        "PET_LOG_DIR": os.path.join(directory, "torchelastic"),
        **replica.env,
        "TORCHX_ATTEMPT": str(number),
        APP_MARKER: app_dir,
    }
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = gpus
    return env
