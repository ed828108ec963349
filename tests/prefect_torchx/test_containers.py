"""A pool of type docker: what becomes of an app when the container of its flow run is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from docker_engine import why_no_engine
from docker_images import stocked_engine
from local_apps import running
from prefect_containers import POOL, PrefectContainers, why_no_docker_pool
from prefect_followed import begin_followed
from prefect_jobs import Job

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_no_engine()), reason=str(why_no_engine())),
    pytest.mark.skipif(bool(why_no_docker_pool()), reason=why_no_docker_pool()),
]


Start = Callable[[str], tuple[PrefectContainers, Job]]


@pytest.fixture
def start(private_home: Path, tmp_path: Path) -> Iterator[Start]:
    """Return what runs the flow until its app's first line is in the log for good."""
    with ExitStack() as stack:
        engine = stack.enter_context(stocked_engine(private_home / f"pool-{uuid4().hex[:4]}"))

        def start(scheduler: str) -> tuple[PrefectContainers, Job]:
            prefect = PrefectContainers(tmp_path, engine)
            stack.callback(prefect.stop)
            prefect.start()
            stack.enter_context(prefect.here())
            folder = tmp_path / f"job-{uuid4().hex[:8]}"
            folder.mkdir()
            job = Job(folder, "direct", prefect.state_dir, scheduler, engine.url)
            stack.callback(job.clean_up)
            begin_followed(job, POOL)
            return prefect, job

        yield start


def test_an_app_on_the_engine_outlives_the_container_of_its_flow_run(start: Start) -> None:
    """The run is started again in another container, which follows it; the log has each line once."""
    prefect, job = start("local_docker")
    prefect.kill_flow_run()
    job.run.wait_for("Crashed")
    job.run.run_again()
    job.starts(2)
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == job.first_lines(4)
    assert [status.state for status in job.statuses()] == [AppState.SUCCEEDED]
    wait_until(lambda: not running(str(job.folder)), 60)


def test_a_local_app_ends_with_the_container_of_its_flow_run(start: Start) -> None:
    """With the state directory on a volume the next container knows that, and runs another one at once."""
    prefect, job = start("local_cwd")
    prefect.kill_flow_run()
    job.run.wait_for("Crashed")
    wait_until(lambda: not running(str(job.folder)), 60)
    job.run.run_again()
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == sorted([*job.first_lines(1), *job.first_lines(4)])
    assert [status.state for status in job.statuses()] == [AppState.FAILED, AppState.SUCCEEDED]
    assert "waiting until it has ended" not in "\n".join(job.run.lines())
