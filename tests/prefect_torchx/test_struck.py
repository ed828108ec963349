"""A signal that strikes amid a record: the next try shows what has not arrived, and nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prefect import flow, get_client
from prefect_runs import FlowRun

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import asyncio, logging, os, signal, sys
from uuid import UUID
from prefect import flow, get_client
from prefect.flow_engine import run_flow
from prefect_torchx import app_run, arun_app, run_app
from torchx_core import AppDef, Role

app_run.LEAVE_S = 600.0  # however slow the host is
MORE, FORM, MAY_STRIKE = sys.argv[2:]
SCRIPT = f'''
for n in $(seq 100); do echo line $n; done
until test -e {MORE}; do sleep 0.02; done
'''
APP = AppDef("app", [Role("r", image="", entrypoint="bash", args=["-c", SCRIPT])])

class Strike(logging.Handler):
    def emit(self, record):
        if MAY_STRIKE and "line 50" in record.getMessage():
            os.kill(os.getpid(), signal.SIGTERM)

@flow
def body():
    logging.getLogger("prefect.flow_runs").addHandler(Strike())
    run_app(APP)

@flow
async def awaited():
    logging.getLogger("prefect.flow_runs").addHandler(Strike())
    await arun_app(APP)

with get_client(sync_client=True) as client:
    flow_run = client.read_flow_run(UUID(sys.argv[1]))
result = run_flow(globals()[FORM], flow_run=flow_run)
if asyncio.iscoroutine(result):
    asyncio.run(result)
"""


@flow
def pipeline() -> None:
    """Stand for the program's flow, of which the test makes a run."""


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("form", ["body", "awaited"])
def test_a_signal_amid_a_record_loses_no_line(prefect_api: str, tmp_path: Path, form: str) -> None:
    """What was taken and not yet sent is sent by the process that was struck, or shown by the next one."""
    program, more = tmp_path / "program.py", tmp_path / "more"
    program.write_text(PROGRAM)
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
    command = [sys.executable, str(program), str(run.id), str(more), form]
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    struck = subprocess.run([*command, "strike"], env=env, capture_output=True, check=False, timeout=250)
    # Prefect sends itself the signal again at the end, unless its handler has struck asyncio's own code.
    ended_by = {-signal.SIGTERM, 1}
    assert struck.returncode in ended_by, struck.stderr.decode()
    assert struck.returncode < 0 or b"TerminationSignal" in struck.stderr, struck.stderr.decode()
    more.touch()
    run.run_again()
    again = subprocess.run([*command, ""], env=env, capture_output=True, check=False, timeout=250)
    assert again.returncode == 0, again.stderr.decode()
    lines = [line for line in run.lines() if line.startswith("[r/0] line ")]
    assert lines == [f"[r/0] line {number}" for number in range(1, 101)]
