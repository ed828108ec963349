"""A try that is cancelled before it has found the app of an earlier try."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.states import Cancelling, Scheduled
from prefect_runs import FlowRun

from prefect_torchx import run_app
from prefect_torchx._engine.caller import Caller
from prefect_torchx.app_run import AppRun
from prefect_torchx.order import Order
from torchx_core import AppState, Runner
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


class _OnTheWayError(Exception):
    """Something that says nothing about the app."""


@pytest.mark.usefixtures("prefect_api")
def test_an_interruption_before_the_app_is_looked_for_cancels_it(
    runner: Runner, running: Callable[[], AppHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try leaves the app running; the second is interrupted while it learns who it is."""
    app = app_of("sleep", "600")
    tries: list[int] = []
    learn = Caller.flow_tries

    def interrupted(_caller: Caller) -> Any:
        monkeypatch.setattr(Caller, "flow_tries", learn)
        raise KeyboardInterrupt

    @task(retries=1)
    def job() -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            with AppRun(Order.make(app)) as run:
                run.attach()
            raise _OnTheWayError
        running()
        monkeypatch.setattr(Caller, "flow_tries", interrupted)
        run_app(app)

    @flow
    def pipeline() -> None:
        job()

    with pytest.raises(KeyboardInterrupt):
        pipeline()
    [left] = runner.list("local_cwd")
    status = runner.wait(left.app_handle, timeout_s=240)
    assert status is not None
    assert (len(tries), status.state) == (2, AppState.CANCELLED)


PROGRAM = """
import os, time
from pathlib import Path
from prefect import flow
from prefect_torchx import run_app
from prefect_torchx.app_run import AppRun
from prefect_torchx.order import Order
from torchx_core import AppDef, Role

SCRIPT = "trap 'echo goodbye; exit 0' TERM; echo hello; while true; do sleep 0.02; done"

APP = AppDef("app", [Role("r", image="", entrypoint="bash", args=["-c", SCRIPT])])

@flow
def pipeline():
    if os.environ["TEST_ATTACHES"]:
        with AppRun(Order.make(APP)) as run:
            run.attach()
    if os.environ["TEST_WAITS_AT"]:
        Path(os.environ["TEST_WAITS_AT"]).touch()
        while True:
            time.sleep(0.1)  # Python sees a signal that comes just before a sleep after it
    run_app(APP)
"""


@pytest.fixture
def start(
    prefect_api: str, tmp_path: Path, runner: Runner
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts a process of a flow run, as Prefect's runner does, and kills it later."""
    del runner  # it says where apps lie
    (tmp_path / "program.py").write_text(PROGRAM)
    with ExitStack() as stack, (tmp_path / "flow.log").open("wb") as log:

        def start(run: FlowRun, waits_at: str = "", attaches: str = "") -> subprocess.Popen[bytes]:
            more: Mapping[str, str] = {
                "PREFECT_API_URL": prefect_api,
                "PREFECT__FLOW_RUN_ID": str(run.id),
                "PREFECT__FLOW_ENTRYPOINT": f"{tmp_path}/program.py:pipeline",
                "TEST_WAITS_AT": waits_at,
                "TEST_ATTACHES": attaches,
            }
            command = [sys.executable, "-m", "prefect.engine"]
            process = subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


@pytest.mark.timeout(900)
def test_a_run_that_is_cancelled_before_it_comes_to_its_app_ends_what_it_had_before(
    start: Callable[..., subprocess.Popen[bytes]],
    runner: Runner,
    running: Callable[[], AppHandle],
    tmp_path: Path,
) -> None:
    """The flow's process is killed; the next one is cancelled before it calls `run_app`. Nothing runs on."""
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
        killed = start(run)
        wait_until(lambda: killed.poll() is not None or any("hello" in line for line in run.lines()), 200)
        app = running()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        client.set_flow_run_state(run.id, Scheduled(), force=True)
        cancelled = start(run, f"{tmp_path}/begun")
        wait_until(lambda: cancelled.poll() is not None or (tmp_path / "begun").exists(), 200)
        client.set_flow_run_state(run.id, Cancelling(), force=True)
        cancelled.send_signal(signal.SIGTERM)
        cancelled.wait(200)
    status = runner.status(app)
    assert status is not None
    assert status.state is AppState.CANCELLED, (tmp_path / "flow.log").read_text()
    assert [line for line in run.lines() if "goodbye" in line] == ["[r/0] goodbye"]


@pytest.mark.timeout(900)
def test_a_run_that_is_cancelled_while_nobody_follows_its_app_ends_that(
    start: Callable[..., subprocess.Popen[bytes]], runner: Runner, tmp_path: Path
) -> None:
    """The flow has begun an app and does something else, so no call is there to notice the signal."""
    with get_client({"timeout": 30}, sync_client=True) as client:
        run = FlowRun(client.create_flow_run(pipeline).id)
        cancelled = start(run, f"{tmp_path}/begun", "yes")
        wait_until(lambda: cancelled.poll() is not None or (tmp_path / "begun").exists(), 200)
        client.set_flow_run_state(run.id, Cancelling(), force=True)
        cancelled.send_signal(signal.SIGTERM)
        cancelled.wait(200)
    [app] = runner.list("local_cwd")
    status = runner.status(app.app_handle)
    assert status is not None
    assert status.state is AppState.CANCELLED, (tmp_path / "flow.log").read_text()


@flow
def pipeline() -> None:
    """Stand for the program's flow, of which the test makes a run."""
