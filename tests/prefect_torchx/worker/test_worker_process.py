"""Flow runs of a work pool in real worker processes, which are killed, stopped and doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import get_client
from prefect_pool import WAIT_S, Pool

from prefect_torchx.worker import TorchXWorker
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def pool(prefect_api: str, tmp_path: Path) -> Iterator[Pool]:
    """Return a work pool of its own for each test; it prints what its workers said."""
    pool = Pool(prefect_api, tmp_path)
    yield pool
    pool.close()
    print(pool.output())  # noqa: T201  (pytest shows it when the test fails)


def test_a_flow_run_is_an_app(pool: Pool) -> None:
    """A worker started by Prefect's own command runs a flow run as an app; the server knows it."""
    run = pool.ask("patient")
    pool.start_worker()
    pool.let_go()
    assert run.wait_for(timeout_s=WAIT_S).is_completed()
    (handle,) = pool.apps()
    assert pool.infrastructure_pid(run) == handle
    wait_until(lambda: pool.state_of(handle) is AppState.SUCCEEDED, WAIT_S)


def test_prefects_own_command_makes_a_pool(pool: Pool) -> None:
    """A fresh process finds the type by its name; the pool's form is ours."""
    name = f"{pool.name}-made"
    pool.prefect("work-pool", "create", name, "--type", "torchx")
    with get_client(sync_client=True) as client:
        made = client.read_work_pool(name)
    assert made.type == "torchx"
    assert made.base_job_template == TorchXWorker.get_default_base_job_template()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_flow_run_outlives_its_worker(how: signal.Signals, pool: Pool) -> None:
    """When the worker is killed or stopped its app goes on; the next worker takes it up; it runs once."""
    run = pool.ask("patient")
    pool.start_worker()
    (pid,) = pool.starts()
    pool.end_worker(how)
    os.kill(pid, 0)
    assert run.state.is_running()

    pool.start_worker()
    wait_until(lambda: any("takes up this flow run" in line for line in run.lines()), WAIT_S)
    pool.let_go()
    assert run.wait_for(timeout_s=WAIT_S).is_completed()
    assert pool.starts() == [pid]
    assert len(pool.apps()) == 1


def test_what_prefect_did_not_get_from_a_crashed_process_is_in_its_log(pool: Pool) -> None:
    """The last lines printed are in the flow run's log, without those that Prefect has already."""
    run = pool.ask("crash")
    pool.start_worker()
    assert run.wait_for(timeout_s=WAIT_S).is_crashed()
    lines = wait_until(
        lambda: (found := run.lines()) and any("out of luck" in x for x in found) and found, WAIT_S
    )
    assert sum("still well" in line for line in lines) == 1


def test_cancelling_a_flow_run_ends_its_app(pool: Pool) -> None:
    """The flow run is Cancelled, its process gone, its app over."""
    run = pool.ask("patient")
    pool.start_worker()
    (pid,) = pool.starts()
    run.cancel()
    assert run.wait_for(timeout_s=WAIT_S).is_cancelled()
    (handle,) = pool.apps()
    wait_until(lambda: pool.state_of(handle) not in (AppState.RUNNING, AppState.PENDING), WAIT_S)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
