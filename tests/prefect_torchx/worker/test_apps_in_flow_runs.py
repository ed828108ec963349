"""Apps that flows submit which are apps themselves: those of a work pool of type torchx."""

from __future__ import annotations

import os
import signal

import pytest
from prefect_pool import WAIT_S, Pool
from prefect_pool_flows import INNER_SESSION

from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_app_goes_on_when_the_flows_process_is_killed(real_pool: Pool) -> None:
    """When the flow run runs again it follows the same app, which has started once."""
    run = real_pool.ask("trains")
    real_pool.start_worker()
    (pid,) = real_pool.starts()
    (training,) = real_pool.starts(of="trainings")
    os.kill(pid, signal.SIGKILL)
    assert run.wait_for(timeout_s=WAIT_S).is_crashed()
    os.kill(training, 0)

    run.run_again()
    real_pool.starts(2)
    real_pool.let_go()
    assert run.wait_for("Completed", timeout_s=WAIT_S).is_completed()
    assert real_pool.starts(of="trainings") == [training]
    (app,) = real_pool.apps(INNER_SESSION)
    assert real_pool.state_of(app) is AppState.SUCCEEDED


def test_cancelling_the_flow_run_cancels_the_app(real_pool: Pool) -> None:
    """The flow's process does that before it ends itself."""
    run = real_pool.ask("trains")
    real_pool.start_worker()
    real_pool.starts(of="trainings")
    run.cancel()
    assert run.wait_for(timeout_s=WAIT_S).is_cancelled()
    (app,) = real_pool.apps(INNER_SESSION)
    wait_until(lambda: real_pool.state_of(app) is AppState.CANCELLED, WAIT_S)
