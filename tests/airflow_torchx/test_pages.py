"""What a user sees in the web UI: looked at with a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_jobs import CODE, starting_jobs
from airflow_server import AirflowServer
from browser import Page, browse, missing

from torchx_core import get_runner

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}"),
]

DAGS = (
    CODE
    + '''
TALK = """
import os, sys, time
print("ERROR odd, but not fatal", flush=True)
print("hello from", os.environ["TORCHX_REPLICA_ID"] if "TORCHX_REPLICA_ID" in os.environ else sys.argv[2])
print("WARNING almost done", flush=True)
while not os.path.exists(f"{sys.argv[1]}/0"):
    time.sleep(0.05)
"""
with DAG("pages", schedule=None, params={"folder": ""}, is_paused_upon_creation=False):
    TorchXRunOperator(
        task_id="t",
        app=app(
            "python3", "-c", TALK, "{{ params.folder }}", "${replica_id}",
            num_replicas=2, port_map={"tensorboard": 6006},
        ),
    )
with DAG("plain", schedule=None, is_paused_upon_creation=False):
    EmptyOperator(task_id="t", on_success_callback=print)
with DAG("elsewhere", schedule=None, is_paused_upon_creation=False):
    TorchXRunOperator(task_id="t", app=app("true"))
'''
)
PICTURES = Path(os.environ.get("TORCHX_TEST_PICTURES", "build/pictures")).resolve()
"""Screenshots are kept there, for people to look at."""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowServer]:
    """Return an Airflow that runs the DAG above."""
    server = AirflowServer(tmp_path_factory.mktemp("airflow"))
    try:
        server.start("from airflow.providers.standard.operators.empty import EmptyOperator\n" + DAGS)
        yield server
    finally:
        server.stop()


@pytest.fixture
def page(airflow: AirflowServer, tmp_path: Path) -> Iterator[Page]:
    """Return a browser that is logged in: Airflow 3.1 forgets over that where somebody wanted to go."""
    with browse(tmp_path / "chromium") as page:
        page.open(airflow.url)
        page.wait_for("Dags")
        yield page


def test_the_log_page_shows_both_replicas_and_the_link(
    airflow: AirflowServer, page: Page, tmp_path: Path
) -> None:
    """While the app runs: each line with its replica and level, and a button to what the app serves."""
    with starting_jobs(airflow, tmp_path) as start:
        job = start("pages")
        page.open(airflow.page_of(job.task))
        shown = page.wait_for("[r/0] hello from 0", "[r/1] hello from 1", "almost done")
        page.picture(PICTURES / "airflow-log.png")
        page.open(f"{airflow.page_of(job.task)}/details")
        page.wait_for("Service")
        page.picture(PICTURES / "airflow-link.png")
        assert page.links()["Service"].endswith(":6006/")
        job.write()
        airflow.wait_for(job.task, "success")
    lines = shown.splitlines()
    assert lines[lines.index(" - [r/1] WARNING almost done") - 1] == "WARNING"


def test_the_page_of_an_app_is_a_tab_of_its_task(airflow: AirflowServer, page: Page, tmp_path: Path) -> None:
    """The link *App* leads there, and it lives while the app runs."""
    with starting_jobs(airflow, tmp_path) as start:
        job = start("pages")
        page.open(f"{airflow.page_of(job.task)}/details")
        page.wait_for("Service")
        link = page.links()["App"]
        page.open(link)
        with page.frame():
            page.wait_for("RUNNING", "live", "hello from 0", "hello from 1")
            page.picture(PICTURES / "airflow-page.png")
            job.write()
            page.wait_for("SUCCEEDED")
        page.resize(420)
        page.picture(PICTURES / "airflow-page-420.png")
        page.resize(1400)
        airflow.wait_for(job.task, "success")


def test_a_task_without_an_app_says_so(airflow: AirflowServer, page: Page) -> None:
    """The tab is there for every task."""
    task = airflow.trigger("plain")
    airflow.wait_for(task, "success")
    page.open(f"{airflow.page_of(task)}/plugin/torchx")
    with page.frame():
        page.wait_for("This task instance has no TorchX app")


def test_a_web_server_that_does_not_see_the_app_says_so(airflow: AirflowServer, page: Page) -> None:
    """Plainly, and how to see it: a container of its own shares no state directory with the workers."""
    task = airflow.trigger("elsewhere")
    airflow.wait_for(task, "success")
    with get_runner(state_dir=str(airflow.state_dir)) as runner:
        runner.delete(airflow.xcom(task, "handle"))
    page.open(f"{airflow.page_of(task)}/plugin/torchx")
    with page.frame():
        page.wait_for(
            "Airflow's web server does not see the app local_cwd://", "torchx-core page local_cwd://"
        )
        page.picture(PICTURES / "airflow-page-unseen.png")


def test_the_connection_form_asks_for_what_a_connection_can_say(airflow: AirflowServer, page: Page) -> None:
    """The type is on offer, and its form has our fields and no others."""
    page.open(f"{airflow.url}/connections")
    page.click("Add Connection")
    page.choose("TorchX")
    page.click("Extra Fields")
    shown = page.wait_for("Scheduler", "Docker host", "State directory")
    page.picture(PICTURES / "airflow-connection.png")
    assert "Password" not in shown
