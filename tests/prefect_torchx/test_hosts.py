"""What becomes of an app when its flow run is started again on another host; the server is on PostgreSQL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import get_args
from uuid import uuid4

import pytest
from daemons import ends
from docker_engine import why_no_engine
from docker_images import stocked_engine
from hosts import why_no_hosts
from local_apps import running
from postgres import why_no_postgres
from prefect_followed import begin_followed
from prefect_hosts import POOL, PoolType, PrefectHosts
from prefect_jobs import WAIT_S, Job
from prefect_runs import ask_until

from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import StateChanged
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.deployment, pytest.mark.timeout(1800)]


class HostJob(Job):
    """A job whose app the first host submits, to the engine or to itself."""

    def __init__(self, hosts: PrefectHosts, folder: Path, scheduler: str, docker_host: str) -> None:
        super().__init__(folder, "direct", hosts.state_dir_of("a"), scheduler, docker_host)
        self._hosts = hosts

    def lives_on(self, host: str) -> list[list[StateChanged]]:
        """Return the states that each local app of a host has been through, once all have ended."""
        with get_runner(self.session, state_dir=str(self._hosts.state_dir_of(host))) as runner:
            return [self._life(runner, app.app_handle) for app in runner.list("local_cwd")]

    def _life(self, runner: Runner, handle: AppHandle) -> list[StateChanged]:
        events = (event for batch in runner.follow(handle) for event in batch.events)
        return [event for event in events if isinstance(event, StateChanged)]


@pytest.fixture(scope="module")
def engine(private_home: Path) -> Iterator[str]:
    """Start an engine that every host reaches."""
    if reason := why_no_engine() or why_no_hosts() or why_no_postgres():
        pytest.skip(reason)
    with stocked_engine(private_home / "hosts") as engine:
        yield engine.url


Start = Callable[[str, PoolType], tuple[PrefectHosts, HostJob]]


@pytest.fixture
def start(engine: str, tmp_path: Path) -> Iterator[Start]:
    """Return what runs the flow on the first host until its first line is in the log for good."""
    with ExitStack() as stack:

        def start(scheduler: str, pool_type: PoolType) -> tuple[PrefectHosts, HostJob]:
            hosts = PrefectHosts(tmp_path, pool_type, DOCKER_HOST=engine)
            stack.callback(hosts.stop)
            hosts.start()
            stack.enter_context(hosts.here())
            folder = tmp_path / f"job-{uuid4().hex[:8]}"
            folder.mkdir()
            job = HostJob(hosts, folder, scheduler, engine)
            stack.callback(job.clean_up)
            hosts.start_worker("a")
            begin_followed(job, POOL)
            return hosts, job

        yield start


@pytest.mark.parametrize("how", ["the host is gone", "the worker is killed", "the worker is stopped"])
def test_an_app_on_an_engine_is_followed_from_the_other_host(start: Start, how: str) -> None:
    """It runs once, and the flow run's log has each line once."""
    hosts, job = start("local_docker", "process")
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


@pytest.mark.parametrize("pool_type", get_args(PoolType))
@pytest.mark.parametrize("how", ["the host is gone", "the app lives"])
def test_a_local_app_of_another_host_is_over_before_the_next_one_begins(
    start: Start, how: str, pool_type: PoolType
) -> None:
    """Nobody can tell from here whether it lives; its first line comes again, as the new app writes it."""
    hosts, job = start("local_cwd", pool_type)
    if how == "the host is gone":
        hosts.network["a"].switch_off()
        wait_until(lambda: not running(str(job.folder)), 60)
    else:
        hosts.network["a"].run("kill", "-KILL", str(job.pid))
        os.kill(hosts.workers["a"], signal.SIGKILL)
    hosts.start_worker("b")
    job.run.run_again()
    job.starts(2)
    ask_until(lambda: "the lease of " in "\n".join(job.run.lines()), WAIT_S)
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == sorted([*job.first_lines(1), *job.first_lines(4)])
    assert "waiting until it has ended, 60 s without a follower at most" in "\n".join(job.run.lines())
    wait_until(lambda: not running(str(job.folder)), 60)
    if how == "the app lives":
        [first], [second] = job.lives_on("a"), job.lives_on("b")
        assert (first[-1].state, second[-1].state) == (AppState.CANCELLED, AppState.SUCCEEDED)
        assert first[-1].time < second[0].time


def test_a_local_app_that_is_still_followed_on_another_host_is_not_run_again(start: Start) -> None:
    """The flow run's process was taken for dead, and is not: the app is run once, and its end counts."""
    hosts, job = start("local_cwd", "process")
    os.kill(hosts.workers["a"], signal.SIGKILL)
    hosts.start_worker("b")
    job.run.run_again()
    job.starts(2)
    ask_until(lambda: "waiting until it has ended" in "\n".join(job.run.lines()), WAIT_S)
    job.write(4)
    ask_until(lambda: "its result is taken" in "\n".join(job.run.lines()), WAIT_S)
    job.run.wait_for("Completed")
    assert job.lines() == job.first_lines(4)
    assert [[life[-1].state for life in job.lives_on(host)] for host in ("a", "b")] == [
        [AppState.SUCCEEDED],
        [],
    ]
    wait_until(lambda: not running(str(job.folder)), 60)


def test_a_flow_run_that_is_an_app_ends_without_its_worker(start: Start) -> None:
    """The pool's other worker, on a host that does not see it, leaves it alone."""
    hosts, job = start("local_cwd", "torchx")
    os.kill(hosts.workers["a"], signal.SIGKILL)
    hosts.start_worker("b")
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == job.first_lines(4)
    assert len(job.starts()) == 1
    assert job.lives_on("b") == []
    wait_until(lambda: not running(str(job.folder)), 60)
