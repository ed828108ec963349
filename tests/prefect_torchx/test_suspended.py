"""An app whose flow run is only interrupted: suspended, paused, or rescheduled when its host goes down."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import prefect_flows
import pytest
from daemons import ends, start_daemon
from prefect import get_client
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.states import Paused
from prefect_jobs import WAIT_S, Form, Job

from torchx_core.specs import AppState

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = Path(prefect_flows.__file__)
RESCHEDULE = {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule"}


class Interrupted:
    """A flow run of a deployment that Prefect's own command executes, in processes that a test terminates."""

    def __init__(self, url: str, folder: Path, form: Form) -> None:
        """Ask for the flow run; execute nothing yet."""
        self.job = Job(folder, form, folder / "state")
        self._env = {**os.environ, "PREFECT_API_URL": url, "TORCHX_STATE_DIR": str(folder / "state")}
        self._pid = 0
        options = {"session": folder.name, "cfg": {"grace_s": 1.0}, "on_worker_shutdown": "cancel"}
        with get_client(sync_client=True) as client:
            deployment = client.create_deployment(
                client.create_flow_from_name(form.replace("_", "-")),
                name=folder.name,
                path=str(PROGRAM.parent),
                entrypoint=f"{PROGRAM.name}:{form}",
            )
            parameters = {"folder": str(folder), "options": options}
            self.id: UUID = client.create_flow_run_from_deployment(deployment, parameters=parameters).id

    def execute(self, **env: str) -> None:
        """Start a process that has another one run the flow."""
        command = [sys.executable, "-m", "prefect", "flow-run", "execute", str(self.id)]
        self._pid = start_daemon(command, {**self._env, **env}, self.job.folder / "log")

    def end(self, signum: signal.Signals, *, supervisor: bool) -> None:
        """Send a signal to the flow's process, to its supervisor before that if asked; wait for both ends."""
        pid = self.job.pid
        if supervisor:
            os.kill(self._pid, signum)
        if not supervisor or signum == signal.SIGKILL:
            os.kill(pid, signum)
        for each in (pid, self._pid):
            assert ends(each, WAIT_S), self.log()

    def go_on(self) -> None:
        """Resume the flow run, or start it again where Prefect has it down as crashed; execute it."""
        if self.job.run.state.is_paused():
            resume_flow_run(self.id)
        elif not self.job.run.state.is_scheduled():
            self.job.run.run_again()
        self.execute()

    def clean_up(self) -> None:
        """Leave nothing behind."""
        for pid in {self._pid, self.job.pid}:
            if not ends(pid, 0):
                os.kill(pid, signal.SIGKILL)
        self.job.clean_up()

    def log(self) -> str:
        """Return what the processes have printed."""
        return (self.job.folder / "log").read_text()


@pytest.fixture
def begin(prefect_api: str, tmp_path: Path) -> Iterator[Callable[[Form], Interrupted]]:
    """Return a function that asks for a flow run."""
    begun: list[Interrupted] = []

    def ask(form: Form) -> Interrupted:
        begun.append(Interrupted(prefect_api, tmp_path, form))
        return begun[-1]

    yield ask
    for each in begun:
        each.clean_up()
        print(each.log())  # noqa: T201  (pytest shows it when the test fails)


def _suspend(run: Interrupted) -> None:
    suspend_flow_run(flow_run_id=run.id, timeout=600)


def _pause(run: Interrupted) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, Paused(timeout_seconds=600))


def _leave_be(_run: Interrupted) -> None:
    """Let Prefect itself say that the flow run is to run again."""


@pytest.mark.parametrize("form", ["direct", pytest.param("body", marks=pytest.mark.deployment)])
@pytest.mark.parametrize(
    ("interrupt", "signum", "env"),
    [
        pytest.param(_suspend, signal.SIGKILL, {}, id="suspended, and its host lost"),
        pytest.param(_pause, signal.SIGTERM, {}, id="paused, and its process terminated"),
        pytest.param(_leave_be, signal.SIGTERM, RESCHEDULE, id="rescheduled"),
    ],
)
def test_the_app_goes_on_and_is_followed_again(
    form: Form,
    interrupt: Callable[[Interrupted], None],
    signum: signal.Signals,
    env: dict[str, str],
    begin: Callable[[Form], Interrupted],
) -> None:
    """Though ``on_worker_shutdown`` is ``cancel``: one app, each line in the log once."""
    run = begin(form)
    job = run.job
    run.execute(**env)
    job.write(1)
    job.wait_for_lines(1)
    job.wait_for_saved_positions()
    interrupt(run)
    run.end(signum, supervisor=interrupt is not _pause)
    assert [status.state for status in job.statuses()] == [AppState.RUNNING]

    run.go_on()
    job.starts(2)
    job.write(4)
    job.run.wait_for("Completed")
    assert job.lines() == job.first_lines(4)
    assert [status.state for status in job.statuses()] == [AppState.SUCCEEDED]
