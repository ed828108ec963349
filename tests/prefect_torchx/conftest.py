"""Prefect servers for the whole test run, and a state directory for the apps of each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prefect_server import ONE_CERTIFICATE, SETTINGS, PrefectServer, talking_to
from shared import shared

from torchx_core import Runner, get_runner
from torchx_core.specs import AppHandle, AppState
from torchx_core.testing import wait_until

if TYPE_CHECKING:
    from prefect_site import Site

# Before a test module imports Prefect.
os.environ.update(SETTINGS, PREFECT_API_SSL_CERT_FILE=ONE_CERTIFICATE)


@pytest.fixture(scope="session")
def prefect_api(shared_home: Path) -> Iterator[str]:
    """Return the address of the test run's one Prefect server: to start another takes 8 s of CPU time."""
    home = shared_home / "prefect"
    with shared(home, _server(home)) as url, talking_to(url):
        yield url


@contextmanager
def _server(home: Path) -> Iterator[str]:
    server = PrefectServer(home)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a Prefect server that may be killed, and what has others run flows; this process uses it."""
    from prefect_site import running_site

    with running_site(tmp_path_factory.mktemp("prefect")) as site:
        yield site


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
            timeout_s=240,
        )[0]

    return handle
