"""Every line of an app in its flow run's log once, though the process of the run was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prefect import flow, get_client
from prefect_runs import FlowRun

from torchx_core import Runner
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import sys
from uuid import UUID
from prefect import flow, get_client
from prefect.flow_engine import run_flow
from prefect_torchx import run_app
from torchx_core import AppDef, Role

GO = sys.argv[2]
SCRIPT = f"n=0; until test -e {GO}; do n=$((n+1)); echo line $n; sleep 0.02; done; echo line last"

@flow
def pipeline():
    run_app(AppDef("app", [Role("r", image="", entrypoint="bash", args=["-c", SCRIPT])]))

with get_client(sync_client=True) as client:
    flow_run = client.read_flow_run(UUID(sys.argv[1]))
run_flow(pipeline, flow_run=flow_run)
"""


@flow
def pipeline() -> None:
    """Stand for the program's flow, of which the test makes a run."""


def _saved_cursor(run: FlowRun) -> str:
    """Return what is saved about how far the run's log is; nothing as long as nothing is."""
    return next((place.cursor for place in run.saved_positions().values() if place), "")


def _lines(runner: Runner, handle: AppHandle, cursor: str | None = None) -> list[str]:
    return [line.text for batch in runner.follow(handle, cursor) for line in batch.lines()]


def test_a_killed_run_goes_on_where_its_log_was_known_to_be(
    prefect_api: str, runner: Runner, tmp_path: Path
) -> None:
    """No line is lost, and none comes twice, though some came after the last save, about a second before."""
    program, go = tmp_path / "program.py", tmp_path / "go"
    program.write_text(PROGRAM)
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
    command = [sys.executable, str(program), str(run.id), str(go)]
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    log = (tmp_path / "log").open("wb")
    with log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as first:
        wait_until(lambda: _saved_cursor(run) or first.poll() is not None, 240)
        assert first.poll() is None, (tmp_path / "log").read_text()
        wait_until(lambda: any("line 200" in line for line in run.lines()), 240)
        first.send_signal(signal.SIGKILL)
    cursor = _saved_cursor(run)

    run.run_again()
    go.touch()
    log = (tmp_path / "log").open("ab")
    with log:
        second = subprocess.run(command, env=env, stdout=log, stderr=log, timeout=120, check=False)
    assert second.returncode == 0, (tmp_path / "log").read_text()

    [app] = runner.list("local_cwd")
    written, after = _lines(runner, app.app_handle), _lines(runner, app.app_handle, cursor)
    shown = [line.removeprefix("[r/0] ") for line in run.lines() if line.startswith("[r/0] line")]
    assert 0 < len(after) < len(written)
    assert shown == written
