"""Apps that flows submit which are apps themselves: those of a work pool of type torchx."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect_pool import WAIT_S, Pool
from prefect_pool_flows import INNER_SESSION

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


def test_the_app_goes_on_when_the_flows_process_is_killed(pool: Pool) -> None:
    """When the flow run runs again it follows the same app, which has started once."""
    run = pool.ask("trains")
    pool.start_worker()
    (pid,) = pool.starts()
    (training,) = pool.starts(of="trainings")
    os.kill(pid, signal.SIGKILL)
    assert run.wait_for(timeout_s=WAIT_S).is_crashed()
    os.kill(training, 0)

    run.run_again()
    pool.starts(2)
    pool.let_go()
    assert run.wait_for("Completed", timeout_s=WAIT_S).is_completed()
    assert pool.starts(of="trainings") == [training]
    (app,) = pool.apps(INNER_SESSION)
    assert pool.state_of(app) is AppState.SUCCEEDED


def test_cancelling_the_flow_run_cancels_the_app(pool: Pool) -> None:
    """The flow's process does that before it ends itself."""
    run = pool.ask("trains")
    pool.start_worker()
    pool.starts(of="trainings")
    run.cancel()
    assert run.wait_for(timeout_s=WAIT_S).is_cancelled()
    (app,) = pool.apps(INNER_SESSION)
    wait_until(lambda: pool.state_of(app) is AppState.CANCELLED, WAIT_S)
