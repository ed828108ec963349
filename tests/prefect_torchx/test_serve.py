"""Flow runs in processes of their own, which Prefect starts, cancels and loses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import get_client
from prefect.client.schemas.objects import State
from prefect.states import Cancelling, Scheduled

from torchx_core import AppState, Runner
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PROGRAM = """
import os
from pathlib import Path
from prefect import flow, task
from prefect.task_runners import ProcessPoolTaskRunner
from prefect_torchx import run_app
from torchx_core import AppDef, Role

@task
def job(go):
    script = f"echo started; until test -e {go}; do sleep 0.05; done; echo ended"
    run_app(AppDef("app", [Role("r", image="", entrypoint="sh", args=["-c", script])]))

@flow
def pipeline(how: str, go: str) -> None:
    Path(go).with_name("pid").write_text(str(os.getpid()))
    if how == "called":
        job(go)
    elif how == "submitted":
        job.submit(go).result()
    else:
        with ProcessPoolTaskRunner(max_workers=1) as pool:
            pool.submit(job, {"go": go}).result()

if __name__ == "__main__":
    pipeline.serve(name="served")
"""


class Served:
    """A served flow, and the runs of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.go = folder / "go"
        """The app ends once this file exists."""

    def start(self, how: str) -> UUID:
        """Ask for a run, and return its id."""
        with get_client(sync_client=True) as client:
            found = wait_until(client.read_deployments, timeout_s=60)
            newest = max(found, key=lambda deployment: str(deployment.created))
            run = client.create_flow_run_from_deployment(
                newest.id, parameters={"how": how, "go": str(self.go)}
            )
            return run.id

    def kill(self) -> None:
        """SIGKILL the process of the flow run."""
        os.kill(int((self._folder / "pid").read_text()), signal.SIGKILL)


def _state(flow_run_id: UUID) -> State[Any]:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run_id).state
        assert state
        return state


def _set(flow_run_id: UUID, state: State[Any]) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run_id, state, force=True)


@pytest.fixture
def served(prefect_api: str, runner: Runner, tmp_path: Path) -> Iterator[Served]:
    """Serve the flow from a process of its own until the test is over."""
    program = tmp_path / "served.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "PREFECT_API_URL": prefect_api, "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    log = (tmp_path / "log").open("wb")
    with log, subprocess.Popen([sys.executable, program], env=env, stdout=log, stderr=log) as process:
        yield Served(tmp_path)
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
        process.send_signal(signal.SIGTERM)
    sys.stdout.write((tmp_path / "log").read_text())


@pytest.mark.parametrize("how", ["called", "submitted"])
def test_cancelling_a_flow_run_ends_its_app(
    how: str, served: Served, runner: Runner, running: Callable[[], AppHandle]
) -> None:
    """The app ends at once and the flow run is Cancelled, also when the task was submitted."""
    flow_run_id = served.start(how)
    handle = running()
    _set(flow_run_id, Cancelling())
    status = runner.wait(handle, timeout_s=5)
    assert status
    assert status.state is AppState.CANCELLED
    assert status.msg == "cancelled because the Prefect flow run was cancelled"
    final = wait_until(lambda: (state := _state(flow_run_id)).is_final() and state, timeout_s=20)
    assert final.is_cancelled()


@pytest.mark.parametrize("how", ["called", "submitted", "in another process"])
def test_cancelling_a_flow_run_that_nobody_supervises_ends_its_app(
    how: str, prefect_api: str, runner: Runner, running: Callable[[], AppHandle], tmp_path: Path
) -> None:
    """Where no signal comes, in a script or a task runner's child process, the state on the server tells."""
    program = tmp_path / "script.py"
    program.write_text(
        PROGRAM.replace('pipeline.serve(name="served")', f"pipeline({how!r}, {str(tmp_path / 'go')!r})")
    )
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    log = (tmp_path / "log").open("wb")
    with log, subprocess.Popen([sys.executable, program], env=env, stdout=log, stderr=log) as process:
        handle = running()
        with get_client(sync_client=True) as client:
            newest = max(client.read_flow_runs(), key=lambda run: str(run.created))
        _set(newest.id, Cancelling())
        status = runner.wait(handle, timeout_s=10)
        assert process.wait(timeout=30) != 0
    assert status
    assert status.msg == "cancelled because the Prefect flow run was cancelled"


def test_a_flow_run_whose_process_was_killed_finds_its_app_again(
    served: Served, runner: Runner, running: Callable[[], AppHandle]
) -> None:
    """The app survives, and the flow run's next process follows it to its end."""
    flow_run_id = served.start("called")
    handle = running()
    served.kill()
    wait_until(lambda: _state(flow_run_id).is_crashed(), timeout_s=30)
    killed = runner.owner(handle)

    _set(flow_run_id, Scheduled())
    wait_until(lambda: runner.owner(handle) != killed, timeout_s=30)
    served.go.touch()
    assert wait_until(lambda: (state := _state(flow_run_id)).is_final() and state, 30).is_completed()
    assert [app.app_handle for app in runner.list("local_cwd")] == [handle]
