"""Tries of one task on hosts that do not see each other's apps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_jobs import CODE, StartJob
from airflow_server import AirflowServer

from torchx_core.specs import AppState

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

DAGS = (
    CODE
    + """
import os
from airflow_torchx import _execution, _sight
from airflow_torchx.operators import torchx

if os.path.exists(os.path.join(os.environ["AIRFLOW_HOME"], "elsewhere")):
    os.environ["TORCHX_STATE_DIR"] += "-elsewhere"
    _sight.gethostname = lambda: "elsewhere"
_execution.LOOK_AGAIN_S = 9.0  # sooner, Airflow takes the end of the first process for that of the second
torchx.DEFER_AFTER_S = 0.5
dag("retried", retries=1)
dag("deferred", retries=0, deferrable=True, on_success_callback=print)
CODE = CODE.replace('print("token"', 'print("x" * 40_000, "token"')
dag("long", retries=0, deferrable=True, on_success_callback=print)
"""
)


@pytest.fixture
def elsewhere(airflow: AirflowServer) -> Iterator[Path]:
    """Return the file which says that tasks begin on another host."""
    file = airflow.home / "elsewhere"
    yield file
    file.unlink(missing_ok=True)


def test_a_retry_on_another_host_is_started_again_until_it_is_on_the_right_one(
    airflow: AirflowServer, begin: StartJob, elsewhere: Path
) -> None:
    """It uses up no try, says where the app is, and the log goes on where it was."""
    job = begin("retried")
    job.write()
    job.wait_for_lines(0)
    job.wait_for_saved_position()
    elsewhere.touch()
    os.kill(job.process(), signal.SIGKILL)
    airflow.wait_for(job.task, "up_for_reschedule", 2)
    elsewhere.unlink()
    job.write_all()
    airflow.wait_for(job.task, "success", 2)
    assert [*job.lines(1), *job.lines(2)] == [0, 1, 2, 3]
    assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)
    assert "was submitted on host" in airflow.log(job.task, 2)


def test_a_deferred_task_that_is_resumed_on_another_host_ends_well(
    airflow: AirflowServer, begin: StartJob, elsewhere: Path
) -> None:
    """Its trigger has seen the app's end and all of its log: nothing is looked for, nothing is run again."""
    job = begin("deferred")
    airflow.wait_for(job.task, "deferred")
    job.write()
    job.wait_for_lines(0)
    elsewhere.touch()
    job.write_all()
    airflow.wait_for(job.task, "success")
    assert job.lines() == [0, 1, 2, 3]
    assert "is unknown here: its result is taken" in airflow.log(job.task)
    assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)


def test_a_deferred_task_whose_log_is_not_all_shown_waits_for_the_right_host(
    airflow: AirflowServer, begin: StartJob, elsewhere: Path
) -> None:
    """Its trigger leaves a very long line to the worker; its only try begins again until it sees the app."""
    job = begin("long")
    airflow.wait_for(job.task, "deferred")
    elsewhere.touch()
    job.write_all()
    airflow.wait_for(job.task, "up_for_reschedule")
    elsewhere.unlink()
    airflow.wait_for(job.task, "success")
    assert job.lines() == [0, 1, 2, 3]
    assert (job.handles(), job.status().state) == ([job.handle], AppState.SUCCEEDED)
