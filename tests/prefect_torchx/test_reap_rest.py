"""What a killed flow process could not show of its app is in the run's log when the reaper has been there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from local_apps import app_of
from prefect import flow, get_client
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Crashed
from prefect_runs import FlowRun, ask_until

from prefect_torchx import reap_apps
from prefect_torchx._engine.position_store import ServerPositionStore
from prefect_torchx.cli import main
from torchx_core import Runner
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import sys
from uuid import UUID
from prefect import flow, get_client
from prefect.flow_engine import run_flow
from prefect_torchx import run_app
from torchx_core import AppDef, Role

MORE = sys.argv[2]
SCRIPT = f'''
say_goodbye() {{ for n in 1 2 3; do echo goodbye $n; done; exit 0; }}
trap say_goodbye TERM
for n in $(seq 100); do echo early $n; done
until test -e {MORE}; do sleep 0.02; done
for n in $(seq 100); do echo late $n; done
echo token $HF_TOKEN
touch {MORE}.done
while true; do sleep 0.02; done
'''
ROLE = Role("r", image="", entrypoint="bash", args=["-c", SCRIPT], env={"HF_TOKEN": "open-sesame"})

@flow
def pipeline():
    run_app(AppDef("app", [ROLE]), cfg={"grace_s": 60.0})

with get_client(sync_client=True) as client:
    flow_run = client.read_flow_run(UUID(sys.argv[1]))
run_flow(pipeline, flow_run=flow_run)
"""
SAID = [f"{when} {n}" for when in ("early", "late") for n in range(1, 101)]
WRITTEN = [*SAID, "token ***", *(f"goodbye {n}" for n in range(1, 4))]


@flow
def pipeline() -> None:
    """Stand for the program's flow, of which the test makes a run."""


@pytest.fixture
def orphan(prefect_api: str, runner: Runner, tmp_path: Path) -> tuple[FlowRun, AppHandle]:
    """Return a flow run whose process was killed between two lines of its app, which has gone on since."""
    program, more, errors = tmp_path / "program.py", tmp_path / "more", tmp_path / "errors"
    program.write_text(PROGRAM)
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
    command = [sys.executable, str(program), str(run.id), str(more)]
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    with errors.open("wb") as log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as process:
        ask_until(lambda: process.poll() is not None or _is_saved(runner, run), 200)
        assert process.poll() is None, errors.read_text()
        process.send_signal(signal.SIGKILL)
    more.touch()
    wait_until((tmp_path / "more.done").exists, 240)
    [app] = runner.list("local_cwd")
    return run, app.app_handle


def _is_saved(runner: Runner, run: FlowRun) -> bool:
    """Return whether the server knows that the log has all of the app's early lines."""
    if not any("early 100" in line for line in run.lines()):
        return False
    [(handle, place)] = run.saved_positions().items()
    batch = next(runner.follow(handle, place.cursor if place else None, tick_s=0.01))
    return not any(True for _ in batch.lines())


def _shown(run: FlowRun) -> Counter[str]:
    lines = (line.removeprefix("[r/0] ") for line in run.lines() if line.startswith("[r/0] "))
    return Counter(line for line in lines if line.startswith(("early", "late", "token", "goodbye")))


def _end(run: FlowRun, state: State[None]) -> None:
    with get_client({"timeout": 30}, sync_client=True) as client:
        client.set_flow_run_state(run.id, state, force=True)


def _reap(run: FlowRun, state: State[None]) -> None:
    with get_client({"timeout": 30}, sync_client=True) as client:
        reap_apps(flow=pipeline, flow_run=client.read_flow_run(run.id), state=state)


def test_the_hook_shows_what_the_log_lacks(orphan: tuple[FlowRun, AppHandle]) -> None:
    """Every line that the app wrote is there once, its goodbye too, and a second hook adds nothing."""
    run, _ = orphan
    _end(run, Cancelled())
    _reap(run, Cancelled())
    assert _shown(run) == Counter(WRITTEN)
    _reap(run, Cancelled())
    assert _shown(run) == Counter(WRITTEN)


def test_the_program_shows_what_the_log_lacks(
    orphan: tuple[FlowRun, AppHandle], capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator who ends an app by hand loses none of its lines either."""
    run, handle = orphan
    _end(run, Crashed())
    assert main(["reap"]) == 0
    assert capsys.readouterr().out.startswith(f"{handle}  flow run {run.id} is Crashed: cancelled")
    assert _shown(run) == Counter(WRITTEN)


def test_an_app_that_has_ended_by_itself_is_shown_to_its_end(
    orphan: tuple[FlowRun, AppHandle], runner: Runner
) -> None:
    """Nothing is left to cancel then, but the log lacks the lines all the same."""
    run, handle = orphan
    runner.cancel(handle)
    runner.wait(handle, timeout_s=240)
    _end(run, Crashed())
    _reap(run, Crashed())
    assert _shown(run) == Counter(WRITTEN)


@pytest.mark.usefixtures("prefect_api")
def test_what_may_hold_unknown_secrets_is_not_shown(runner: Runner) -> None:
    """A block's secrets are known to the flow's process alone: the log says how to see the lines."""
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(UUID(str(client.create_flow_run(pipeline).id)))
    app = app_of("sh", "-c", "echo open-sesame; sleep 600")
    app.metadata["prefect.flow_run_id"] = str(run.id)
    handle = runner.run(app, "local_cwd", app_id="app")
    ServerPositionStore(str(run.id), "", has_hidden=True).open(handle, fresh=True)
    _end(run, Crashed())
    _reap(run, Crashed())
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert status.state is AppState.CANCELLED
    lines = ask_until(lambda: [line for line in run.lines() if "not showing" in line], 240)
    why = f"not showing the rest of {handle}, some of whose secrets are unknown here"
    assert lines == [f"{why}; `torchx-core log {handle}` shows the whole log"]
    assert not any("sesame" in line for line in run.lines())
