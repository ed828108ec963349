"""A triggerer that does not see the apps: in another container, as in Airflow's own compose file."""

from __future__ import annotations

import json
import os
import signal
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
from airflow_torchx.operators import torchx

torchx.DEFER_AFTER_S = 0.5
dag("only-try", deferrable=True, retries=0)
dag("two-tries", deferrable=True, retries=1)
dag("connected", deferrable=True, retries=0, torchx_conn_id="here")
"""
)
BLIND = "the triggerer could not follow the app"


def environments(home: Path) -> dict[str, dict[str, str]]:
    """Give the triggerer a state directory of its own, and keep a connection from it."""
    connection = json.dumps({"conn_type": "torchx", "extra": {"scheduler": "local_cwd"}})
    return {
        "triggerer": {"TORCHX_STATE_DIR": str(home / "elsewhere")},
        "scheduler": {"AIRFLOW_CONN_HERE": connection},  # which starts the workers
    }


@pytest.mark.parametrize(("dag_id", "why"), [("only-try", "unknown app"), ("connected", "isn't defined")])
def test_what_its_triggerer_cannot_follow_a_worker_does(
    airflow: AirflowServer, begin: StartJob, dag_id: str, why: str
) -> None:
    """In the only try too: the app that goes on is followed to its end, and each line is shown once."""
    job = begin(dag_id)
    job.wait_for_text(BLIND)
    airflow.wait_for(job.task, "running")
    job.write_all()
    airflow.wait_for(job.task, "success")
    assert job.lines() == [0, 1, 2, 3]
    assert (job.status().state, job.handles()) == (AppState.SUCCEEDED, [job.handle])
    log = airflow.log(job.task)
    assert log.count(BLIND) == 1
    assert why in log


def test_a_retry_does_not_defer_to_such_a_triggerer_again(airflow: AirflowServer, begin: StartJob) -> None:
    """It has been found out once; the retry follows the app, which two tries show together."""
    job = begin("two-tries")
    job.write()
    job.wait_for_text(BLIND)
    airflow.wait_for(job.task, "running")
    job.write()
    job.wait_for_lines(0, 1)
    job.wait_for_saved_position()
    os.kill(job.process(), signal.SIGKILL)
    airflow.wait_for(job.task, "running", 2)
    job.write_all()
    airflow.wait_for(job.task, "success", 2)
    assert [*job.lines(1), *job.lines(2)] == [0, 1, 2, 3]
    assert BLIND not in airflow.log(job.task, 2)
    assert job.handles() == [job.handle]
