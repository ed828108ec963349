"""Every way in which a task of Airflow can lose its app, and what becomes of both: the table of kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from airflow_jobs import Job, StartJob
from daemons import ends
from local_apps import parent_of

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

__all__ = ["DAGS", "SENSOR", "TABLE", "Fate", "Form", "Kill", "check_fate", "started"]

Form: TypeAlias = Literal["worker", "deferred", "sensor"]
"""Who follows the app: the worker that submitted it, the triggerer, or a worker that only waits for it."""
EITHER: tuple[Form, ...] = ("worker", "deferred")
FOLLOWER: dict[Form, str] = {"worker": "worker", "deferred": "triggerer", "sensor": "sensor"}

DAGS = """
from airflow_torchx import TorchXSensor
from airflow_torchx.operators import torchx
torchx.DEFER_AFTER_S = 0.5
torchx.DEFER_MARGIN_S = 10.0
torchx.DEADLINE_MARGIN_S = 5.0

for form in ("worker", "deferred"):
    deferrable = form == "deferred"
    dag(f"retried-{form}", deferrable=deferrable)
    dag(f"patient-{form}", deferrable=deferrable, retries=50)
    dag(f"once-{form}", deferrable=deferrable, retries=0, lease_s=15.0)
    dag(f"limited-{form}", deferrable=deferrable, retries=0, execution_timeout=timedelta(seconds=20))
    dag(
        f"relimited-{form}", deferrable=deferrable, retries=1, execution_timeout=timedelta(seconds=40)
    )
    dag(f"longer-{form}", deferrable=deferrable, retries=0, execution_timeout=timedelta(seconds=40))
    dag(f"short-{form}", deferrable=deferrable, dagrun_timeout=timedelta(seconds=25))

with DAG("sensor", schedule=None, params={"handle": ""}, is_paused_upon_creation=False):
    TorchXSensor(task_id="t", handle="{{ params.handle }}", retries=0)
"""


class Fate(Enum):
    """What becomes of the app."""

    CANCELLED = "is cancelled"
    FOLLOWED = "goes on"
    REPLACED = "is cancelled, and a new one runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One way to die."""

    what: str
    """What happens, as the documentation says it."""
    do: Callable[[Job], None]
    """Makes it happen to a job whose first line is in the task's log."""
    app: Fate
    task: str = "success"
    """The state that Airflow shows in the end."""
    tries: int | None = 1
    """In which try; None where that depends on how long it takes."""
    says: str = ""
    """What the app's status says."""
    forms: tuple[Form, ...] = EITHER
    dag: str = "retried"

    def __str__(self) -> str:
        return self.what

    def page_row(self) -> str:
        """Return the row of the documentation's table."""
        followed_by = "either" if self.forms == EITHER else FOLLOWER[self.forms[0]]
        tried = {None: ", perhaps in a later try", 1: ""}.get(self.tries, f" in try {self.tries}")
        return f"| {self.what} | {followed_by} | {self.app.value} | {self.says} | {self.task}{tried} |"


# --- what a user does


def _mark_failed(job: Job) -> None:
    job.airflow.mark(job.task, "failed")


def _mark_success(job: Job) -> None:
    job.airflow.mark(job.task, "success")


def _clear(job: Job) -> None:
    job.airflow.clear(job.task)


def _stop_the_run(job: Job) -> None:
    job.airflow.fail_run(job.task)


def _wait(job: Job) -> None:
    """Do nothing: the DAG has a limit."""


# --- what happens to the worker


def _kill_the_process(job: Job) -> None:
    os.kill(job.process(), signal.SIGKILL)
    job.airflow.wait_for(job.task, "running", try_number=2)


def _kill_the_last_process(job: Job) -> None:
    os.kill(job.process(), signal.SIGKILL)


def _stop_the_worker(job: Job) -> None:
    process = job.process()
    os.kill(parent_of(process), signal.SIGTERM)
    assert ends(process, 10)
    job.airflow.wait_for(job.task, "running", try_number=2)


def _stop_the_last_worker(job: Job) -> None:
    os.kill(parent_of(job.process()), signal.SIGTERM)


def _kill_the_worker(job: Job) -> None:
    process = job.process()
    os.kill(parent_of(process), signal.SIGKILL)
    assert ends(process, 10)
    job.airflow.wait_for(job.task, "running", try_number=2)


def _kill_the_last_worker(job: Job) -> None:
    process = job.process()
    os.kill(parent_of(process), signal.SIGKILL)
    assert ends(process, 10)


def _freeze_the_worker(job: Job) -> None:
    """Let the next try begin beside it, then let it go on."""
    process = job.process()
    both = (parent_of(process), process)
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    job.airflow.wait_for(job.task, "running", try_number=2)
    job.wait_for_owner("airflow-try-2-")
    for pid in both:
        os.kill(pid, signal.SIGCONT)
    assert ends(process, 30)


# --- what happens to Airflow


def _restart_the_api_server(job: Job) -> None:
    job.airflow.end("api-server", signal.SIGTERM)
    job.airflow.start_again("api-server")


def _restart_the_api_server_under_a_worker(job: Job) -> None:
    """Let either the first try go on, or another one begin when that has gone."""
    process = job.process()
    _restart_the_api_server(job)
    number = job.airflow.wait_for_heartbeat(job.task)
    job.wait_for_owner(f"airflow-try-{number}-")
    assert number == 1 or ends(process, 240)


def _kill_the_scheduler(job: Job) -> None:
    job.airflow.end("scheduler", signal.SIGKILL)
    job.airflow.start_again("scheduler")


def _kill_the_scheduler_under_a_worker(job: Job) -> None:
    process = job.process()
    _kill_the_scheduler(job)
    assert ends(process, 240)
    job.airflow.wait_for(job.task, "running", try_number=2)


def _stop_the_triggerer(job: Job) -> None:
    job.wait_for_note()
    job.airflow.end("triggerer", signal.SIGTERM)
    job.airflow.start_again("triggerer")


def _kill_the_triggerer(job: Job) -> None:
    job.wait_for_note()
    job.airflow.end("triggerer", signal.SIGKILL)
    job.airflow.start_again("triggerer")


def _lose_the_triggerer(job: Job) -> None:
    job.airflow.end("triggerer", signal.SIGKILL)
    job.end()
    job.airflow.start_again("triggerer")


def _freeze_the_triggerer(job: Job) -> None:
    """Let another one take over, then let it go on: Airflow tells it that a user has killed the task."""
    job.wait_for_note()
    job.airflow.freeze("triggerer")
    job.airflow.start_another("triggerer")
    job.write()
    job.wait_for_lines(0, 1)
    job.airflow.signal("triggerer", signal.SIGCONT)
    job.wait_for_text("not cancelling")


def _hang_the_worker(job: Job) -> None:
    process = job.process()
    for pid in (parent_of(process), process):
        os.kill(pid, signal.SIGSTOP)
    job.airflow.wait_for(job.task, "failed")
    job.end()
    for pid in (parent_of(process), process):
        os.kill(pid, signal.SIGCONT)
    assert ends(process, 30)


def _hang_the_triggerer(job: Job) -> None:
    job.wait_for_note()
    job.airflow.freeze("triggerer")
    job.end()
    job.airflow.wait_for(job.task, "failed")
    job.airflow.signal("triggerer", signal.SIGCONT)


_USER = "cancelled by user action in Airflow: the task instance is "
_IN_WORKER: tuple[Form, ...] = ("worker",)
_DEFERRED: tuple[Form, ...] = ("deferred",)

TABLE = (
    Kill(
        what="somebody marks the task failed",
        do=_mark_failed,
        app=Fate.CANCELLED,
        task="failed",
        says=_USER + "failed",
    ),
    Kill(
        what="somebody marks the task succeeded",
        do=_mark_success,
        app=Fate.CANCELLED,
        says=_USER + "success",
    ),
    Kill(
        what="somebody clears the task",
        do=_clear,
        app=Fate.REPLACED,
        tries=2,
        says="cancelled because the Airflow task was cleared",
    ),
    Kill(
        what="somebody stops the DAG run",
        do=_stop_the_run,
        app=Fate.CANCELLED,
        task="failed",
        says=_USER + "failed",
    ),
    Kill(
        what="`execution_timeout` passes",
        do=_wait,
        dag="limited",
        app=Fate.CANCELLED,
        task="failed",
        says="cancelled because the Airflow task's execution_timeout of 0:00:20 passed",
    ),
    Kill(
        what="`execution_timeout` passes, and a retry is left",
        do=_wait,
        dag="relimited",
        app=Fate.REPLACED,
        tries=2,
        says="cancelled because the Airflow task's execution_timeout of 0:00:40 passed",
    ),
    Kill(
        what="`execution_timeout` passes while the worker hangs",
        do=_hang_the_worker,
        dag="limited",
        app=Fate.CANCELLED,
        task="failed",
        says="deadline passed",
        forms=_IN_WORKER,
    ),
    Kill(
        what="`execution_timeout` passes while the triggerer hangs",
        do=_hang_the_triggerer,
        dag="longer",  # until the trigger has noted how far the log got
        app=Fate.CANCELLED,
        task="failed",
        says="deadline passed",
        forms=_DEFERRED,
    ),
    Kill(
        what="`dagrun_timeout` passes",
        do=_wait,
        dag="short",
        app=Fate.CANCELLED,
        task="skipped",
        says=_USER + "skipped",
    ),
    Kill(
        what="the task's process is killed (SIGKILL, out of memory)",
        do=_kill_the_process,
        app=Fate.FOLLOWED,
        tries=2,
        forms=_IN_WORKER,
    ),
    Kill(
        what="the task's process is killed during the last try",
        do=_kill_the_last_process,
        dag="once",
        app=Fate.CANCELLED,
        task="failed",
        says="lease expired: nobody renewed it for 15 s",
        forms=_IN_WORKER,
    ),
    Kill(
        what="the worker stops (SIGTERM, a deployment)",
        do=_stop_the_worker,
        app=Fate.FOLLOWED,
        tries=2,
        forms=_IN_WORKER,
    ),
    Kill(
        what="the worker stops during the last try",
        do=_stop_the_last_worker,
        dag="once",
        app=Fate.CANCELLED,
        task="failed",
        says="cancelled because the Airflow worker shut down",
        forms=_IN_WORKER,
    ),
    Kill(
        what="the worker is killed; its heartbeat is missed",
        do=_kill_the_worker,
        app=Fate.FOLLOWED,
        tries=2,
        forms=_IN_WORKER,
    ),
    Kill(
        what="the worker freezes, is replaced, and goes on",
        do=_freeze_the_worker,
        app=Fate.FOLLOWED,
        tries=2,
        forms=_IN_WORKER,
    ),
    Kill(
        what="the API server restarts",
        do=_restart_the_api_server_under_a_worker,
        dag="patient",
        app=Fate.FOLLOWED,
        tries=None,
        forms=_IN_WORKER,
    ),
    Kill(what="the API server restarts", do=_restart_the_api_server, app=Fate.FOLLOWED, forms=_DEFERRED),
    Kill(
        what="the scheduler is killed and started again",
        do=_kill_the_scheduler_under_a_worker,
        app=Fate.FOLLOWED,
        tries=2,
        forms=_IN_WORKER,
    ),
    Kill(
        what="the scheduler is killed and started again",
        do=_kill_the_scheduler,
        app=Fate.FOLLOWED,
        forms=_DEFERRED,
    ),
    Kill(
        what="the triggerer stops (SIGTERM) and starts again",
        do=_stop_the_triggerer,
        app=Fate.FOLLOWED,
        forms=_DEFERRED,
    ),
    Kill(
        what="the triggerer is killed and started again",
        do=_kill_the_triggerer,
        app=Fate.FOLLOWED,
        forms=_DEFERRED,
    ),
    Kill(
        what="the triggerer freezes, is replaced, and goes on",
        do=_freeze_the_triggerer,
        app=Fate.FOLLOWED,
        forms=_DEFERRED,
    ),
    Kill(
        what="no triggerer comes back before the lease is over",
        do=_lose_the_triggerer,
        dag="once",
        app=Fate.CANCELLED,
        task="failed",
        says="lease expired: nobody renewed it for 15 s",
        forms=_DEFERRED,
    ),
)

SENSOR = Kill(
    what="the worker of a `TorchXSensor` is killed during the last try, and nobody else follows the app",
    do=_kill_the_last_worker,
    app=Fate.CANCELLED,
    task="failed",
    says="lease expired: nobody renewed it for 15 s",
    forms=("sensor",),
)
"""Of an app that no task of Airflow has submitted."""


def started(begin: StartJob, dag: str, form: Form) -> Job:
    """Run a task until its app's first line is shown, by the worker or by the triggerer."""
    job = begin(f"{dag}-{form}")
    if form == "deferred":
        job.airflow.wait_for(job.task, "deferred")
    job.write()
    job.wait_for_lines(0)
    if form == "worker":
        job.wait_for_saved_position()
    return job


def check_fate(job: Job, kill: Kill) -> None:
    """Check the app's state, the task's, that no process is left, and that every line is in the log once."""
    _CHECKS[kill.app](job, kill)
    wait_until(lambda: not job.processes(), 30)


def _check_cancelled(job: Job, kill: Kill) -> None:
    status = job.end()
    assert (status.state, status.msg) == (AppState.CANCELLED, kill.says)
    job.airflow.wait_for(job.task, kill.task, kill.tries)
    assert job.lines() == [0]
    assert job.handles() == [job.handle]


def _check_followed(job: Job, kill: Kill) -> None:
    assert not job.status().is_terminal()
    job.write_all()
    job.airflow.wait_for(job.task, kill.task, kill.tries)
    assert job.status().state is AppState.SUCCEEDED
    assert [line for number in job.airflow.tries(job.task) for line in job.lines(number)] == [0, 1, 2, 3]
    assert job.handles() == [job.handle]


def _check_replaced(job: Job, kill: Kill) -> None:
    status = job.end()
    assert (status.state, status.msg) == (AppState.CANCELLED, kill.says)
    job.write_all()
    tries = job.airflow.wait_for(job.task, kill.task, kill.tries)
    assert (job.lines(1), job.lines(tries)) == ([0], [0, 1, 2, 3])
    assert len(job.handles()) == 2


_CHECKS = {Fate.CANCELLED: _check_cancelled, Fate.FOLLOWED: _check_followed, Fate.REPLACED: _check_replaced}
