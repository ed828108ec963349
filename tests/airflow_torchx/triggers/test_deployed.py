"""Triggers in a real triggerer, which they share with those of others: in every Airflow that we support."""

from __future__ import annotations

import psutil
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
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from airflow_torchx.operators import torchx

torchx.DEFER_AFTER_S = 0.5

class Pause(BaseOperator):
    def execute(self, context):
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=20)), method_name="resume")

    def resume(self, context, event=None):
        pass

dag("deferred", deferrable=True, torchx_conn_id="here")
with DAG("others", schedule=None, is_paused_upon_creation=False):
    Pause(task_id="t")
"""
)
APPS = 4


def test_a_triggerer_outlives_our_triggers_and_a_user_can_end_them(
    airflow: AirflowServer, begin: StartJob
) -> None:
    """Their questions (note, connection, state) and answers do not mix with those of its other triggers."""
    airflow.add_connection("here", {"scheduler": "local_cwd"})
    triggerer = psutil.Process(airflow.pid_of("triggerer"))
    runners = triggerer.children()
    other = airflow.trigger("others")
    jobs = [begin("deferred") for _ in range(APPS)]
    for job in jobs:
        airflow.wait_for(job.task, "deferred")
    jobs[0].write()  # they read the same files
    for job in jobs:
        job.wait_for_lines(0)
    killed, *followed = jobs

    airflow.mark(killed.task, "failed")

    status = killed.end()
    assert (status.state, status.msg) == (
        AppState.CANCELLED,
        "cancelled by user action in Airflow: the task instance is failed",
    )
    jobs[0].write_all()
    for task in (other, *(job.task for job in followed)):
        airflow.wait_for(task, "success")
    assert [job.lines() for job in jobs] == [[0], *[[0, 1, 2, 3]] * len(followed)]
    assert triggerer.children() == runners
