"""What becomes of an app on another host, over ssh, when its task is ended: the table's most usual rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from airflow_jobs import CODE, Job, StartJob, starting_jobs
from airflow_kills import DAGS, TABLE, Form, Kill, check_fate, started
from airflow_server import AirflowServer
from ssh_host import SshHost, far_host

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

ROWS: Final = {
    "somebody marks the task failed",
    "somebody clears the task",
    "the task's process is killed (SIGKILL, out of memory)",
    "the worker stops (SIGTERM, a deployment)",
    "the worker is killed; its heartbeat is missed",
    "the triggerer is killed and started again",
}
"""What is done, as the table says it."""


class FarJob(Job):
    """A job whose app runs on the host `box`."""

    scheduler = "local_cwd@box"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    """The host, which shares files with this one, but no process and no state directory."""
    with far_host(tmp_path_factory.mktemp("far")) as server:
        yield server


@pytest.fixture(scope="module")
def airflow(box: SshHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """An Airflow whose tasks run their apps there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(box.clients), prepend=os.pathsep)
        server = AirflowServer(tmp_path_factory.mktemp("airflow"))
        try:
            server.start(CODE.replace("cfg=cfg,", 'cfg=cfg, scheduler="local_cwd@box",') + DAGS)
            yield server
        finally:
            server.stop()


@pytest.fixture
def begin(airflow: AirflowServer, tmp_path: Path) -> Iterator[StartJob]:
    """Return what runs the task of a DAG and waits until its app has been submitted."""
    with starting_jobs(airflow, tmp_path, FarJob) as begin:
        yield begin


@pytest.mark.parametrize(
    ("kill", "form"),
    [
        pytest.param(kill, form, id=f"{form}: {kill.what}")
        for kill in TABLE
        for form in kill.forms
        if kill.what in ROWS
    ],
)
def test_a_kill_leaves_what_the_table_says(begin: StartJob, kill: Kill, form: Form) -> None:
    """As of an app on the worker's own host."""
    job = started(begin, kill.dag, form)
    kill.do(job)
    check_fate(job, kill)
