"""Every way in which a flow run of Prefect can end or lose its app, and what becomes of both: the table."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from daemons import ends
from prefect_jobs import Form, Job
from prefect_site import Site, Way

__all__ = [
    "CANCEL",
    "CANCEL_SCRIPT",
    "INTERRUPT",
    "INTERRUPT_SCRIPT",
    "KILL_PROCESS",
    "TABLE",
    "TERMINATE_PROCESS",
    "TIMEOUT",
    "Fate",
    "Kill",
]

Do: TypeAlias = Callable[[Site, Way, Sequence[Job]], None]
WAYS: tuple[Way, ...] = ("serve", "worker", "script")
SUPERVISED: tuple[Way, ...] = ("serve", "worker")
BLOCKING: tuple[Form, ...] = ("async_submitted", "sync_in_async")
STOP_S = 60.0
AGAIN_S = 3.0
LIMIT_S = 20.0
"""Long enough for a busy host to submit the app before; the app itself never ends."""


SLACK_S = 30.0
"""What a busy host may take, over the least that it takes to notice, until the app has ended."""
LEASE_S = 30.0
"""Long enough for a follower on a busy host to renew it."""


class Fate(Enum):
    """What becomes of the app."""

    CANCELLED = "is cancelled"
    FOLLOWED = "goes on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One way to die."""

    what: str
    """What happens, as the documentation says it."""
    do: Do
    """Makes it happen to jobs whose apps' first lines are in their logs."""
    app: Fate
    run: str
    """The state that Prefect shows in the end; "A or B" where it is now one, now the other."""
    runs: Mapping[Form, str] = field(default_factory=dict)
    """The same, where a form has another one."""
    says: str = ""
    """What the app's status says."""
    ways: tuple[Way, ...] = WAYS
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `run_app`."""
    limit_s: float | None = None
    """The task's `timeout_seconds`; the flow's, where the app runs in its body."""
    floor_s: float = 1.0
    """How long it takes to notice, at most: a signal, the flow run's state or Prefect's look at that."""

    @property
    def stopped_within_s(self) -> float:
        """How long after it the app may have run on."""
        return self.floor_s + SLACK_S

    def __str__(self) -> str:
        return self.what

    def page_row(self) -> str:
        """Return the row of the documentation's table."""
        run_by = "any" if self.ways == WAYS else ", ".join(self.ways)
        others = "".join(f"; {run} for `{form}`" for form, run in self.runs.items())
        return f"| {self.what} | {run_by} | {self.app.value} | {self.says} | {self.run}{others} |"


# --- what a user does


def _cancel(_site: Site, _way: Way, jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.hit_at = time.time()
        job.run.cancel()


def _wait(_site: Site, _way: Way, _jobs: Sequence[Job]) -> None:
    """Do nothing: there is a limit."""


def _interrupt(_site: Site, way: Way, jobs: Sequence[Job]) -> None:
    """Press Ctrl-C: in a terminal the whole group of a script gets it.

    The first one only asks asyncio's main task to end. A task that blocks the event loop does not notice.
    """
    send = os.killpg if way == "script" else os.kill
    pids = [job.pid for job in jobs]
    for job, pid in zip(jobs, pids, strict=True):
        job.hit_at = time.time()
        send(pid, signal.SIGINT)
    for job, pid in zip(jobs, pids, strict=True):
        if job.form in BLOCKING and not ends(pid, AGAIN_S):
            job.hit_at = time.time()
            send(pid, signal.SIGINT)


# --- what happens to the flow's process


def _terminate_the_process(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    _end_processes(jobs, signal.SIGTERM)
    _run_again(site, way, jobs)


def _terminate_for_good(_site: Site, _way: Way, jobs: Sequence[Job]) -> None:
    _end_processes(jobs, signal.SIGTERM)


def _kill_the_process(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    _end_processes(jobs, signal.SIGKILL)
    _run_again(site, way, jobs)


def _end_processes(jobs: Sequence[Job], signum: signal.Signals) -> None:
    pids = [job.pid for job in jobs]
    for job, pid in zip(jobs, pids, strict=True):
        job.hit_at = time.time()
        os.kill(pid, signum)
    for pid in pids:
        assert ends(pid, STOP_S)


def _run_again(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    for job in jobs:
        if way != "script":
            job.run.wait_for("Crashed")
        site.run_again(job)
    for job in jobs:
        job.starts(2)


# --- what happens to who supervises it


def _stop_for_good(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    pids = [job.pid for job in jobs]
    for job in jobs:
        job.hit_at = time.time()
    site.end(way, signal.SIGTERM)
    for pid in pids:
        assert ends(pid, STOP_S)


def _stop_the_supervisor(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    _stop_for_good(site, way, jobs)
    for job in jobs:
        site.run_again(job)
    for job in jobs:
        job.starts(2)


def _kill_the_supervisor_and_cancel(site: Site, way: Way, jobs: Sequence[Job]) -> None:
    site.end(way, signal.SIGKILL)
    _cancel(site, way, jobs)


def _restart_the_server(site: Site, _way: Way, _jobs: Sequence[Job]) -> None:
    site.server.kill()
    site.server.start()


_CANCELLED = "cancelled because the Prefect flow run was cancelled"

CANCEL = Kill(
    what="somebody cancels the flow run",
    do=_cancel,
    app=Fate.CANCELLED,
    says=_CANCELLED,
    run="Cancelled",
    ways=SUPERVISED,
)
CANCEL_SCRIPT = Kill(
    what="somebody cancels the flow run, which is a script",
    do=_cancel,
    app=Fate.CANCELLED,
    says=_CANCELLED,
    run="Cancelled",
    ways=("script",),
)
TIMEOUT = Kill(
    what="`timeout_seconds` pass",
    do=_wait,
    app=Fate.CANCELLED,
    says="cancelled because the timeout of the Prefect run has passed",
    run="TimedOut",
    limit_s=LIMIT_S,
)
INTERRUPT = Kill(
    what="Ctrl-C (SIGINT), twice where an async flow blocks its event loop",
    do=_interrupt,
    app=Fate.CANCELLED,
    says="cancelled because the Prefect run was interrupted",
    run="Crashed",
    ways=SUPERVISED,
)
INTERRUPT_SCRIPT = Kill(
    what="Ctrl-C (SIGINT) in a script, twice where an async flow blocks its event loop",
    do=_interrupt,
    app=Fate.CANCELLED,
    says="cancelled because the Prefect run was interrupted",
    run="Crashed",
    runs={"async_submitted": "Running", "sync_in_async": "Running"},
    ways=("script",),
)
TERMINATE_PROCESS = Kill(
    what="the flow's process is terminated (SIGTERM) and the run started again",
    do=_terminate_the_process,
    app=Fate.FOLLOWED,
    run="Completed",
)
TERMINATE_FOR_GOOD = Kill(
    what='the flow\'s process is terminated, with `on_worker_shutdown="cancel"`',
    do=_terminate_for_good,
    app=Fate.CANCELLED,
    says="cancelled because the Prefect worker shut down",
    run="Crashed",
    ways=SUPERVISED,
    options={"on_worker_shutdown": "cancel"},
)
TERMINATE_SCRIPT = Kill(
    what='a script is terminated, with `on_worker_shutdown="cancel"`',
    do=_terminate_for_good,
    app=Fate.CANCELLED,
    says="cancelled because the Prefect worker shut down",
    run="Crashed or Running",
    ways=("script",),
    options={"on_worker_shutdown": "cancel"},
)
KILL_PROCESS = Kill(
    what="the flow's process is killed (SIGKILL, out of memory) and the run started again",
    do=_kill_the_process,
    app=Fate.FOLLOWED,
    run="Completed",
)
STOP_SUPERVISOR = Kill(
    what="who supervises it is stopped (SIGTERM, a deployment), comes back, and the run is started again",
    do=_stop_the_supervisor,
    app=Fate.FOLLOWED,
    run="Completed",
    ways=SUPERVISED,
)
STOP_FOR_GOOD = Kill(
    what=f"who supervises it is stopped, and nobody comes back; `lease_s={LEASE_S:g}`",
    do=_stop_for_good,
    app=Fate.CANCELLED,
    says=f"lease expired: nobody renewed it for {LEASE_S:g} s",
    run="Crashed or Running",
    ways=SUPERVISED,
    options={"lease_s": LEASE_S},
    floor_s=LEASE_S,
)
KILL_SUPERVISOR = Kill(
    what="who supervises it is killed, then somebody cancels the flow run",
    do=_kill_the_supervisor_and_cancel,
    app=Fate.CANCELLED,
    says=_CANCELLED,
    run="Crashed or Cancelling",
    ways=SUPERVISED,
)
RESTART_SERVER = Kill(
    what="Prefect's server is killed and started again",
    do=_restart_the_server,
    app=Fate.FOLLOWED,
    run="Completed",
)

TABLE = (
    CANCEL,
    CANCEL_SCRIPT,
    TIMEOUT,
    INTERRUPT,
    INTERRUPT_SCRIPT,
    TERMINATE_PROCESS,
    TERMINATE_FOR_GOOD,
    TERMINATE_SCRIPT,
    KILL_PROCESS,
    STOP_SUPERVISOR,
    STOP_FOR_GOOD,
    KILL_SUPERVISOR,
    RESTART_SERVER,
)
