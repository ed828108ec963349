"""Apps of tasks that run in the workers of a cluster: Dask's or Ray's, which Prefect's task runners start."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from daemons import start_daemon
from local_apps import running
from prefect_jobs import WAIT_S, Job
from prefect_runs import FlowRun
from prefect_server import PrefectServer

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(900)]

SUPPORT = Path(__file__).parents[1] / "support"
PYTHON = Path(__file__).parents[2] / ".venv-runners" / "bin" / "python"
LAST_PART = 9
"""As in `prefect_runner_flows`, which only its own environment can import."""


class _Server(PrefectServer):
    """A server for processes that may import Dask and Ray."""

    def _start(self, name: str, *args: str, **env: str) -> int:
        pid = start_daemon([str(PYTHON), *args], {**self._env, **env}, self._log(name))
        self._pids.append(pid)
        return pid


class _Site(NamedTuple):
    """Where flows run."""

    server: PrefectServer
    state_dir: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Site]:
    """Start a server, and what serves the flows; this process uses it."""
    if not PYTHON.exists():
        pytest.skip(".venv-runners is missing; `make test-deployment` makes it")
    home = tmp_path_factory.mktemp("prefect")
    ray = tempfile.mkdtemp(prefix="ray-")  # it makes sockets there, whose names may not be long
    server = _Server(home)
    try:
        server.start()
        state_dir = home / "state"
        env = {"PYTHONPATH": str(SUPPORT), "RAY_TMPDIR": ray, "TORCHX_STATE_DIR": str(state_dir)}
        server.run("serve", str(SUPPORT / "prefect_runner_flows.py"), **env)
        with server.here():
            yield _Site(server, state_dir)
    finally:
        server.stop()
        shutil.rmtree(ray, ignore_errors=True)


@pytest.fixture(params=["dask", "ray"])
def job(request: pytest.FixtureRequest, site: _Site, tmp_path: Path) -> Iterator[Job]:
    """Run the flow until the first line of both apps is in its log for good."""
    folder = tmp_path / f"job-{uuid4().hex[:8]}"
    folder.mkdir()
    job = Job(folder, "mapped", site.state_dir)
    options = {"session": job.session, "cfg": {"grace_s": 5.0}, "lease_s": 120.0}
    FlowRun.ask(f"{request.param}/serve", folder=str(folder), options=options)
    try:
        job.write(1)
        job.wait_for_lines(1)
        job.wait_for_saved_positions()
        yield job
    finally:
        job.clean_up()


def _workers(job: Job, count: int) -> list[int]:
    """Wait until so many processes have begun a task; return them."""
    file = job.folder / "workers"
    return wait_until(lambda: len(pids := [*map(int, file.read_text().split())]) >= count and pids, WAIT_S)


def test_a_worker_that_dies_costs_no_second_app(job: Job) -> None:
    """The cluster runs its task again, which Prefect does not know: the same app is followed on."""
    os.kill(_workers(job, 2)[0], signal.SIGKILL)
    _workers(job, 3)
    job.write(4)
    job.run.wait_for("Completed")
    assert [status.state for status in job.statuses()] == [AppState.SUCCEEDED] * 2
    assert job.lines() == job.first_lines(4)


def test_a_flow_whose_process_dies_is_taken_up_with_its_apps(job: Job) -> None:
    """Its cluster dies with it, and the apps do not."""
    os.kill(job.pid, signal.SIGKILL)
    job.run.wait_for("Crashed")
    job.run.run_again()
    _workers(job, 4)
    job.write(4)
    job.run.wait_for("Completed")
    assert [status.state for status in job.statuses()] == [AppState.SUCCEEDED] * 2
    assert job.lines() == job.first_lines(4)


def test_a_cancelled_flow_run_ends_all_its_apps(job: Job) -> None:
    """Whatever they still say is in the log, once."""
    job.run.cancel()
    job.run.wait_for()
    wait_until(lambda: not running(str(job.folder)), WAIT_S)
    assert [status.state for status in job.statuses()] == [AppState.CANCELLED] * 2
    assert job.lines() == sorted([*job.first_lines(1), f"line a {LAST_PART}", f"line b {LAST_PART}"])
