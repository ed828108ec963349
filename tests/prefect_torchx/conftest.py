"""A Prefect server for the whole session, and a state directory for the apps of each test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchx_core import Runner, get_runner
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

# Before a test module imports Prefect.
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["PREFECT_LOGGING_COLORS"] = "false"

SERVER_START_S = 120
"""Ten seconds on an idle host, and every test waits for it together."""


@pytest.fixture(scope="session")
def prefect_api(private_home: Path) -> Iterator[str]:
    """Return the address of a Prefect server with an empty database; this process uses it."""
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    log = private_home / "engines" / "prefect" / "server.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        wait_until(lambda: _answers(f"{url}/health") or server.poll(), SERVER_START_S)
        assert server.poll() is None, log.read_text()
        # A flow with heartbeats ends a second late: it joins a thread that sleeps in whole seconds.
        with temporary_settings({PREFECT_API_URL: url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield url
            APILogWorker.drain_all(timeout=10)  # at exit it would find no server
        server.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """Return a runner for the apps that this test's flows run; ends them after it."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    with get_runner() as own:
        yield own
        for app in own.list("local_cwd"):
            own.cancel(app.app_handle, grace_s=0)
            own.wait(app.app_handle)


@pytest.fixture
def running(runner: Runner) -> Callable[[], AppHandle]:
    """Return a function that waits for the one app that runs, and returns its handle."""

    def handle() -> AppHandle:
        return wait_until(
            lambda: [app.app_handle for app in runner.list("local_cwd") if app.state is AppState.RUNNING],
            timeout_s=60,
        )[0]

    return handle
