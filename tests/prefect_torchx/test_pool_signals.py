"""A SIGTERM to the group of a flow with a process pool, as a process worker sends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchx_core import Runner
from torchx_core.specs import AppState
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import asyncio, time
from prefect import flow, task
from prefect.task_runners import ProcessPoolTaskRunner
from prefect_torchx import arun_app
from torchx_core import AppDef, Role

def burn():
    until = time.monotonic() + 0.002
    while time.monotonic() < until:
        pass

async def follow(name):
    app = AppDef(name, [Role("r", image="", entrypoint="sleep", args=["3600"])])
    await arun_app(app, on_worker_shutdown="cancel", cfg={"grace_s": 5.0})

@task
async def waiting():
    await follow("waiting")

@task
async def busy_callback():
    loop = asyncio.get_running_loop()
    def spin():
        burn()
        loop.call_soon(spin)
    spin()
    await follow("callback")

@task
async def busy_task():
    async def spin():
        while True:
            burn()
            await asyncio.sleep(0)
    await asyncio.gather(spin(), follow("task"))

@flow(task_runner=ProcessPoolTaskRunner(max_workers=3))
def pipeline():
    for future in [each.submit() for each in (waiting, busy_callback, busy_task)]:
        future.wait()

if __name__ == "__main__":
    pipeline()
"""


def test_whatever_a_pools_child_is_at_its_app_ends_by_the_right_cause(
    prefect_api: str, runner: Runner, tmp_path: Path
) -> None:
    """In a callback or an innocent task asyncio would swallow what the signal raises."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, program], env=env, stdout=log, stderr=log, start_new_session=True
        ) as flow,
    ):
        try:
            states = [AppState.RUNNING] * 3
            wait_until(lambda: [app.state for app in runner.list("local_cwd")] == states, 300)
            os.killpg(flow.pid, signal.SIGTERM)
            flow.wait(200)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(flow.pid, signal.SIGKILL)
    fates = [runner.status(app.app_handle) for app in runner.list("local_cwd")]
    says = "cancelled because the Prefect worker shut down"
    assert [(each.state.name, each.msg) for each in fates if each] == [("CANCELLED", says)] * 3
