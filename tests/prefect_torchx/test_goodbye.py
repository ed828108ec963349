"""What an app says in its SIGTERM handler is in the log of a cancelled run, whichever signal comes late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prefect import flow, get_client
from prefect_runs import FlowRun

from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import asyncio, sys
from uuid import UUID
from prefect import flow, get_client, task
from prefect.flow_engine import run_flow
from prefect_torchx import app_run, arun_app, run_app
from torchx_core import AppDef, Role

app_run.LAST_LINES_S = app_run.LAST_RECORDS_S = app_run.DEPARTURE_S = 600.0  # however slow the host is
FOLDER, FORM = sys.argv[2:]
SCRIPT = f'''
say_goodbye() {{
    echo goodbye 0; touch {FOLDER}/goodbye
    until test -e {FOLDER}/go; do sleep 0.02; done
    for n in 1 2 3 4 5 6 7 8 9 10 11; do sleep 0.1; echo goodbye $n; done
    exit 0
}}
trap say_goodbye TERM
echo hello; touch {FOLDER}/hello
while true; do sleep 0.02; done
'''
APP = AppDef("app", [Role("r", image="", entrypoint="bash", args=["-c", SCRIPT])])

@task
def job():
    run_app(APP, cfg={"grace_s": 60.0})

@flow
def body():
    run_app(APP, cfg={"grace_s": 60.0})

@flow
def submitted():
    job.submit().result()

@flow
async def awaited():
    await arun_app(APP, cfg={"grace_s": 60.0})

with get_client(sync_client=True) as client:
    flow_run = client.read_flow_run(UUID(sys.argv[1]))
result = run_flow(globals()[FORM], flow_run=flow_run)
if asyncio.iscoroutine(result):
    asyncio.run(result)
"""


@flow
def pipeline() -> None:
    """Stand for the program's flow, of which the test makes a run."""


@contextmanager
def _saying_goodbye(
    prefect_api: str, folder: Path, form: str, signum: signal.Signals | None = None
) -> Iterator[tuple[FlowRun, subprocess.Popen[bytes]]]:
    """Yield a flow run, cancelled or sent a signal, whose app says goodbye, and its process."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
    command = [sys.executable, str(program), str(run.id), str(folder), form]
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, env=env, stdout=log, stderr=log) as process,
    ):
        try:
            _wait_for(folder / "hello", process)
            process.send_signal(signum) if signum else run.cancel()
            _wait_for(folder / "goodbye", process)
            yield run, process
        finally:
            process.kill()


def _wait_for(word: Path, process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: word.exists() or process.poll() is not None, 240)
    assert process.poll() is None, (word.parent / "log").read_text()


def _goodbyes(run: FlowRun) -> list[str]:
    return [line for line in run.lines() if "goodbye" in line]


ALL = [f"[r/0] goodbye {number}" for number in range(12)]


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("form", ["body", "submitted", "awaited"])
def test_a_signal_behind_the_cancel_cuts_no_goodbye_short(
    prefect_api: str, tmp_path: Path, form: str
) -> None:
    """The flow run's state may be seen a little before the SIGTERM comes; the log waits for the app's end."""
    with _saying_goodbye(prefect_api, tmp_path, form) as (run, process):
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        process.wait(240)
        assert _goodbyes(run) == ALL


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("form", ["body", "awaited"])
def test_a_second_ctrl_c_waits_for_no_goodbye(prefect_api: str, tmp_path: Path, form: str) -> None:
    """Who presses it twice wants to go now; the app is cancelled all the same."""
    with _saying_goodbye(prefect_api, tmp_path, form, signal.SIGINT) as (_, process):
        process.send_signal(signal.SIGINT)
        process.wait(120)
        assert not (tmp_path / "go").exists()
