"""What becomes of the app in every way in which Airflow, a user or the host can end its task."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from airflow_jobs import CODE, Job, StartJob, starting_jobs
from airflow_kills import DAGS, SENSOR, TABLE, Form, Kill, check_fate, started
from airflow_server import AirflowServer
from local_apps import parent_of

from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, AppState, Role
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

RESUMED = """
dag("resumed-deferred", deferrable=True, on_success_callback=print)
"""
UNSAVED = """
def save_rarely(context):
    from airflow_torchx import _attachment
    _attachment.SAVE_EVERY_S = 600.0

dag("unsaved-worker", pre_execute=save_rarely)
"""
DAILY = """
from datetime import datetime

with DAG(
    "daily",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    end_date=datetime(2026, 1, 3),
    catchup=False,
    is_paused_upon_creation=False,
):
    TorchXRunOperator(task_id="t", app=app("echo", "run {{ run_id }}"), retries=1)
"""

StartAs: TypeAlias = Callable[[str, Form], Job]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """Return an Airflow that runs the DAGs of the table."""
    server = AirflowServer(tmp_path_factory.mktemp("airflow"))
    try:
        server.start(CODE + DAGS + RESUMED + UNSAVED + DAILY)
        yield server
    finally:
        server.stop()


@pytest.fixture
def begin(airflow: AirflowServer, tmp_path: Path) -> Iterator[StartJob]:
    """Return what runs the task of a DAG and waits until its app has been submitted."""
    with starting_jobs(airflow, tmp_path) as begin:
        yield begin


@pytest.fixture
def start(begin: StartJob) -> StartAs:
    """Return what runs a task until the first line is shown, by the worker or by the triggerer."""
    return lambda dag, form: started(begin, dag, form)


@pytest.mark.parametrize(
    ("kill", "form"),
    [pytest.param(kill, form, id=f"{form}: {kill.what}") for kill in TABLE for form in kill.forms],
)
def test_a_kill_leaves_what_the_table_says(start: StartAs, kill: Kill, form: Form) -> None:
    """The app's state, the task's, no process, and every line in the log once."""
    job = start(kill.dag, form)
    kill.do(job)
    check_fate(job, kill)


def test_a_sensor_keeps_a_lease_as_long_as_it_lives(airflow: AirflowServer, tmp_path: Path) -> None:
    """The lease runs out afterwards: the sensor's process ends with the one that would tell Airflow of it."""
    app = AppDef("a", [Role("r", image="", entrypoint="sleep", args=["600"])])
    with get_runner(state_dir=str(airflow.state_dir)) as runner:
        handle = runner.run(app, "local_cwd", {"lease_s": 15.0}, app_id="waited-for")
        over_at = time.monotonic() + 16.0
        job = Job(airflow, runner, tmp_path, "sensor", waits_for=handle)
        airflow.wait_for(job.task, "running")
        wait_until(lambda: time.monotonic() > over_at, 30)
        assert not job.status().is_terminal()
        SENSOR.do(job)
        status = job.end()
    assert (status.state, status.msg) == (AppState.CANCELLED, SENSOR.says)
    airflow.wait_for(job.task, SENSOR.task, SENSOR.tries)


@pytest.mark.parametrize(
    ("dag", "form"), [("retried", "worker"), ("retried", "deferred"), ("resumed", "deferred")]
)
def test_a_log_is_live_and_the_end_is_good(start: StartAs, dag: str, form: Form) -> None:
    """Whether a worker ends the task or the triggerer does, every line is there once, and no secret."""
    job = start(dag, form)
    job.write()
    job.wait_for_lines(0, 1)
    job.write_all()
    job.airflow.wait_for(job.task, "success")
    assert job.lines() == [0, 1, 2, 3]
    assert job.airflow.xcom(job.task, "app")["state"] == "SUCCEEDED"
    assert "hunter22" not in job.airflow.log(job.task)
    assert "token ***" in job.airflow.log(job.task)


@pytest.mark.parametrize("form", ["worker", "deferred"])
def test_a_clear_after_success_runs_the_task_afresh(start: StartAs, form: Form) -> None:
    """Nobody clears a task to get the old result again."""
    job = start("retried", form)
    job.write_all()
    job.airflow.wait_for_run(job.task, "success")  # Airflow loses a clear that comes while it ends the run

    job.airflow.clear(job.task)

    job.airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert len(job.handles()) == 2


@pytest.mark.parametrize("whose", ["process", "supervisor"])
def test_what_was_shown_after_the_last_save_is_not_shown_again(
    airflow: AirflowServer, begin: StartJob, whose: str
) -> None:
    """A try that dies in mid-log leaves its log file, by which the next one on that host goes on."""
    job = begin("unsaved-worker")
    for number in range(2):
        job.write()
        job.wait_for_lines(*range(number + 1))
    process = job.process()
    os.kill(parent_of(process) if whose == "supervisor" else process, signal.SIGKILL)
    airflow.wait_for(job.task, "running", try_number=2)
    job.write_all()
    airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0, 1], [2, 3])
    log = airflow.log(job.task, 1) + airflow.log(job.task, 2)
    assert log.count("token ***") == 4
    assert log.count("[r/0] is RUNNING") == 1
    assert job.handles() == [job.handle]


def test_an_edit_between_two_tries_does_not_disturb_the_app(airflow: AirflowServer, start: StartAs) -> None:
    """A retry follows the app that runs, though the DAG asks for another one by now, and for fewer tries."""
    job = start("retried", "worker")
    with airflow.edited({"retries=2": "retries=1", 'print("line"': 'print("another line"'}):
        os.kill(job.process(), signal.SIGKILL)
        airflow.wait_for(job.task, "running", try_number=2)
        job.write_all()
        airflow.wait_for(job.task, "success", try_number=2)
    assert (job.lines(1), job.lines(2)) == ([0], [1, 2, 3])
    assert job.handles() == [job.handle]


def test_a_backfill_runs_apps_of_its_own(airflow: AirflowServer) -> None:
    """What it runs is the day's work anew, whatever other runs of the DAG have come to."""
    runs = [airflow.backfill("daily", "2026-01-01"), airflow.trigger("daily")]
    for run in runs:
        airflow.wait_for(run, "success")
    assert runs[0].run_id.startswith("backfill__2026-01-01")
    assert f"[r/0] run {runs[0].run_id}" in airflow.log(runs[0])
    assert len({airflow.xcom(run, "handle") for run in runs}) == 2
