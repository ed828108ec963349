"""Flow runs of a work pool in real worker processes, which are killed, stopped and doubled."""

from __future__ import annotations

import os
import signal

import pytest
from prefect import get_client
from prefect_pool import WAIT_S, Pool

from prefect_torchx.worker import TorchXWorker
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_flow_run_is_an_app(real_pool: Pool) -> None:
    """A worker started by Prefect's own command runs a flow run as an app; the server knows it."""
    run = real_pool.ask("patient")
    real_pool.start_worker()
    real_pool.let_go()
    assert run.wait_for(timeout_s=WAIT_S).is_completed()
    (handle,) = real_pool.apps()
    assert real_pool.infrastructure_pid(run) == handle
    wait_until(lambda: real_pool.state_of(handle) is AppState.SUCCEEDED, WAIT_S)


def test_prefects_own_command_makes_a_pool(real_pool: Pool) -> None:
    """A fresh process finds the type by its name; the pool's form is ours."""
    name = f"{real_pool.name}-made"
    real_pool.prefect("work-pool", "create", name, "--type", "torchx")
    with get_client(sync_client=True) as client:
        made = client.read_work_pool(name)
    assert made.type == "torchx"
    assert made.base_job_template == TorchXWorker.get_default_base_job_template()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_flow_run_outlives_its_worker(how: signal.Signals, real_pool: Pool) -> None:
    """When the worker is killed or stopped its app goes on; the next worker takes it up; it runs once."""
    run = real_pool.ask("patient")
    real_pool.start_worker()
    (pid,) = real_pool.starts()
    real_pool.end_worker(how)
    os.kill(pid, 0)
    assert run.state.is_running()

    real_pool.start_worker()
    wait_until(lambda: any("takes up this flow run" in line for line in run.lines()), WAIT_S)
    real_pool.let_go()
    assert run.wait_for(timeout_s=WAIT_S).is_completed()
    assert real_pool.starts() == [pid]
    assert len(real_pool.apps()) == 1


def test_what_prefect_did_not_get_from_a_crashed_process_is_in_its_log(real_pool: Pool) -> None:
    """The last lines printed are in the flow run's log, without those that Prefect has already."""
    run = real_pool.ask("crash")
    real_pool.start_worker()
    assert run.wait_for(timeout_s=WAIT_S).is_crashed()
    lines = wait_until(
        lambda: (found := run.lines()) and any("out of luck" in x for x in found) and found, WAIT_S
    )
    assert sum("still well" in line for line in lines) == 1


def test_cancelling_a_flow_run_ends_its_app(real_pool: Pool) -> None:
    """The flow run is Cancelled, its process gone, its app over."""
    run = real_pool.ask("patient")
    real_pool.start_worker()
    (pid,) = real_pool.starts()
    run.cancel()
    assert run.wait_for(timeout_s=WAIT_S).is_cancelled()
    (handle,) = real_pool.apps()
    wait_until(lambda: real_pool.state_of(handle) not in (AppState.RUNNING, AppState.PENDING), WAIT_S)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
