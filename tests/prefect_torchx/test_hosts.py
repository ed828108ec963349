"""What becomes of an app when its flow run is started again on another host; the server is on PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from daemons import ends
from docker_engine import why_no_engine
from docker_images import PYTHON_IMAGE, stocked_engine
from hosts import why_no_hosts
from local_apps import running
from postgres import why_no_postgres
from prefect_hosts import DEPLOYMENT, PrefectHosts
from prefect_jobs import Job
from prefect_runs import FlowRun

from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(1800)]


class HostJob(Job):
    """A job whose app the first host submits, to the engine or to itself."""

    def __init__(self, hosts: PrefectHosts, folder: Path, scheduler: str, docker_host: str) -> None:
        super().__init__(folder, "direct", hosts.state_dir_of("a"))
        self._hosts = hosts
        self._scheduler = scheduler
        self._docker_host = docker_host

    def handles(self) -> list[AppHandle]:
        """Return every app that the first host sees, oldest first."""
        with self._runner() as runner:
            return [app.app_handle for app in runner.list(self._scheduler)]

    def _runner(self) -> Runner:
        return get_runner(self.session, state_dir=str(self._state_dir), docker_host=self._docker_host)


@pytest.fixture(scope="module")
def engine(private_home: Path) -> Iterator[str]:
    """Start an engine that every host reaches."""
    if reason := why_no_engine() or why_no_hosts() or why_no_postgres():
        pytest.skip(reason)
    with stocked_engine(private_home / "hosts") as engine:
        yield engine.url


Start = Callable[[str], tuple[PrefectHosts, HostJob]]


@pytest.fixture
def start(engine: str, tmp_path: Path) -> Iterator[Start]:
    """Return what runs the flow on the first host until its first line is in the log for good."""
    with ExitStack() as stack:

        def start(scheduler: str) -> tuple[PrefectHosts, HostJob]:
            hosts = PrefectHosts(tmp_path, DOCKER_HOST=engine)
            stack.callback(hosts.stop)
            hosts.start()
            stack.enter_context(hosts.here())
            folder = tmp_path / f"job-{uuid4().hex[:8]}"
            folder.mkdir()
            job = HostJob(hosts, folder, scheduler, engine)
            stack.callback(job.clean_up)
            hosts.start_worker("a")
            image = PYTHON_IMAGE if scheduler == "local_docker" else ""
            FlowRun.ask(DEPLOYMENT, folder=str(folder), scheduler=scheduler, image=image, session=job.session)
            job.write(1)
            job.wait_for_lines(1)
            job.wait_for_saved_positions()
            return hosts, job

        yield start


@pytest.mark.parametrize("how", ["the host is gone", "the worker is killed", "the worker is stopped"])
def test_an_app_on_an_engine_is_followed_from_the_other_host(start: Start, how: str) -> None:
    """It runs once, and the flow run's log has each line once."""
    hosts, job = start("local_docker")
    if how == "the host is gone":
        hosts.network["a"].switch_off()
    else:
        is_killed = how == "the worker is killed"
        worker, pid = hosts.workers["a"], job.pid
        os.kill(worker, signal.SIGKILL if is_killed else signal.SIGTERM)
        assert ends(worker, 240)
        hosts.network["a"].run("kill", "-KILL", str(pid), check=False)
    hosts.start_worker("b")
    job.run.run_again()
    job.starts(2)
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == job.first_lines(4)
    assert [status.state for status in job.statuses()] == [AppState.SUCCEEDED]
    wait_until(lambda: not running(str(job.folder)), 60)


def test_a_local_app_that_died_with_its_host_is_begun_anew_on_the_other(start: Start) -> None:
    """Its first line comes again, as the new app writes it again."""
    hosts, job = start("local_cwd")
    hosts.network["a"].switch_off()
    wait_until(lambda: not running(str(job.folder)), 60)
    hosts.start_worker("b")
    job.run.run_again()
    job.starts(2)
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == sorted([*job.first_lines(1), *job.first_lines(4)])
    wait_until(lambda: not running(str(job.folder)), 60)
