"""Logs while Prefect's server is away, slow or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from answer_cutter import cutting
from flow_work import in_a_flow
from keepers import Keeper
from local_apps import app_of
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect_runs import FlowRun
from prefect_server import PrefectServer

from prefect_torchx.page import RunPage
from prefect_torchx.position import Position
from torchx_core.schedulers import LogLines
from torchx_core.specs import AppState, AppStatus
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

APP = app_of("true")
HANDLE = "local_cwd://torchx/app"
DONE = AppStatus(state=AppState.SUCCEEDED)
LINES = 30_000
WAIT_S = 240.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Return a server that a test may kill."""
    server = PrefectServer(tmp_path_factory.mktemp("prefect"))
    try:
        server.start()
        with server.here():
            yield server
    finally:
        server.stop()


def _write(page: RunPage, start: int, stop: int) -> None:
    """Write numbered lines, a hundred at a time, each with a mark behind it."""
    for first in range(start, stop, 100):
        lines = tuple(f"number {number}" for number in range(first, first + 100))
        page.write(LogLines("r", 0, 0, "stdout", lines, 1000.0 + first / 1e4))
        page.mark(str(first + 99))
    page.flush()


def _numbers(run: FlowRun) -> list[int]:
    return [int(number) for line in run.lines() for number in re.findall(r"number (\d+)$", line)]


def test_a_server_that_is_killed_and_started_again_has_every_line_once(server: PrefectServer) -> None:
    """Whoever writes does not wait; what has arrived before and after makes one log, in order."""
    told: list[Position] = []

    def work() -> None:
        page = RunPage(APP, keeper=Keeper(told))
        _write(page, 0, LINES // 2)
        wait_until(lambda: told, WAIT_S)
        server.kill()
        _write(page, LINES // 2, LINES)
        assert told[-1].cursor != str(LINES - 1)
        server.start()
        page.close(DONE, limit_s=WAIT_S)

    assert _numbers(in_a_flow(work)) == list(range(LINES))
    assert told[-1].cursor == str(LINES - 1)


def test_a_server_that_stays_away_holds_nobody_up(
    server: PrefectServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Closing ends in its time, says in the run how to see the rest, and claims no more than has arrived."""
    told: list[Position] = []

    def work() -> None:
        page = RunPage(APP, keeper=Keeper(told))
        page.submitted(HANDLE)
        _write(page, 0, 100)
        wait_until(lambda: told, WAIT_S)
        server.kill()
        try:
            _write(page, 100, 10_000)
            page.close(DONE, limit_s=1.0)
        finally:
            server.start()

    run = in_a_flow(work)
    assert _numbers(run) == list(range(100))
    assert told[-1].cursor == "99"
    [notice] = [text for text in caplog.messages if "have not reached Prefect's API" in text]
    assert notice.endswith(f"; `torchx-core log {HANDLE}` shows the whole log")
    assert wait_until(lambda: notice in run.lines(), WAIT_S)


def test_answers_that_are_cut_off_lose_and_repeat_nothing(server: PrefectServer) -> None:
    """The real server has stored what we must believe lost: it is asked, and told the rest."""
    port = urlsplit(server.url).port
    assert port is not None
    with cutting(port) as proxy, temporary_settings({PREFECT_API_URL: proxy.url}):

        def work() -> None:
            page = RunPage(APP)
            _write(page, 0, 1000)
            proxy.cuts = 3
            _write(page, 1000, LINES)
            page.close(DONE, limit_s=WAIT_S)

        run = in_a_flow(work)
        assert proxy.cuts < 3
    assert _numbers(run) == list(range(LINES))
