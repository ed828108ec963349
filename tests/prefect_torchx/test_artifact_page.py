"""What a user sees of an app on Prefect's page: looked at with a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, browse, missing
from flow_work import in_a_flow
from local_apps import app_of
from prefect_runs import FlowRun
from prefect_server import PrefectServer

from prefect_torchx import run_app
from torchx_core import AppDef
from torchx_core.errors import AppStatusError
from torchx_core.testing import Exit, Print, ReportMetric, ReportProgress, ReportResult, Step, python_program

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {missing()}"),
]

PICTURES = Path(os.environ.get("TORCHX_TEST_PICTURES", "build/pictures")).resolve()
"""Screenshots are kept there, for people to look at."""

REPORTS: tuple[Step, ...] = (
    *(ReportMetric("loss", 1 / (step + 1), step) for step in range(20)),
    ReportProgress(0.6, "epoch 6 of 10"),
    Print("WARNING almost done"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """Return a server that this process talks to."""
    server = PrefectServer(tmp_path_factory.mktemp("prefect"))
    try:
        server.start()
        with server.here():
            yield server
    finally:
        server.stop()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Return a browser."""
    with browse(tmp_path / "chromium") as page:
        yield page


def _flow_run(*steps: Step) -> FlowRun:
    """Run an app of two replicas in a flow, and return the flow run."""
    program, args = python_program(*steps)
    app = AppDef("digits", app_of(program, *args, num_replicas=2).roles)

    def work() -> None:
        try:
            run_app(app, "local_cwd")
        except AppStatusError as err:
            assert "exit code 3" in str(err)  # noqa: PT017  (the other run has no error)

    return in_a_flow(work)


def _open(page: Page, server: PrefectServer, run: FlowRun, kind: str, *texts: str) -> str:
    """Open the artifact of that kind, wait for these texts, take a picture, return all it shows."""
    [artifact] = [artifact for artifact in run.artifacts() if artifact.key == f"digits-{kind}"]
    page.open(f"{server.url.removesuffix('/api')}/artifacts/artifact/{artifact.id}")
    shown = page.wait_for(*texts)
    page.picture(PICTURES / f"prefect-{kind}.png")
    return shown


@pytest.mark.usefixtures("runner")
def test_the_pages_of_a_run_show_its_app(server: PrefectServer, page: Page) -> None:
    """Its log by replica, its replicas, how far it is, its metrics as pictures, its result."""
    run = _flow_run(*REPORTS, ReportResult({"accuracy": 0.97}))
    page.open(f"{server.url.removesuffix('/api')}/runs/flow-run/{run.id}")
    page.wait_for("[r/0] WARNING almost done", "[r/1] WARNING almost done", "r.1@local_cwd/")
    page.picture(PICTURES / "prefect-log.png")
    shown = _open(page, server, run, "replicas", "r/0", "r/1", "2 SUCCEEDED")
    assert "exit" in shown
    _open(page, server, run, "progress", "60%", "epoch 6 of 10")
    _open(page, server, run, "metrics", "latest value", "0.05")
    widths = page.driver.execute_script(
        "return [...document.images].filter(i => i.src.startsWith('data:')).map(i => i.naturalWidth)"
    )
    assert widths == [640]
    _open(page, server, run, "result", '"accuracy": 0.97')


@pytest.mark.usefixtures("runner")
def test_the_page_of_a_failure_says_who_how_and_what_to_do(server: PrefectServer, page: Page) -> None:
    """As one reads it: a title, the facts, the last lines, advice."""
    run = _flow_run(*REPORTS, Print("no such file"), Exit(3))
    _open(page, server, run, "post-mortem", "failed with exit code 3", "no such file", "What to do")
