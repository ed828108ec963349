"""Takes the pictures that the documents show, of real pages and terminals: `make screenshots`.

The app on them is one of two replicas, of which one is killed in its first attempt and then succeeds: alone,
in a terminal, in a task of Airflow, and in a flow of Prefect.
"""

from __future__ import annotations

import html
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow_server import AirflowServer
from browser import Page, browse
from cli_terminal import Terminal, in_terminal
from prefect_server import PrefectServer

from torchx_core import get_runner
from torchx_core.page import AppPage
from torchx_core.testing import wait_until

HERE: Final = Path(__file__).parent
TRAIN: Final = """
import math, os, random, signal, sys, time
from torchx_core.runtime import report_metric, report_progress, report_result
rank, attempt = int(sys.argv[1]), int(os.environ["TORCHX_ATTEMPT"])
noise = random.Random(rank)
print(f"INFO rank {rank} of 2, learning rate 0.1", flush=True)
for step in range(20 * attempt, 60):
    time.sleep(0.05)
    loss = 2.3 * math.exp(-step / 18) + 0.08 + noise.uniform(-0.04, 0.04)
    if step % 6 == 5:
        print(f"INFO step {step + 1}/60: loss {loss:.4f}", flush=True)
    if rank == 0:
        report_metric("loss", loss, step + 1)
        report_metric("accuracy", 1 - loss / 2.6, step + 1)
        report_progress((step + 1) / 60)
    if attempt == 0 and step == 24 and rank == 1:
        print("WARNING the node is going down", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
if rank == 0:
    report_result({"loss": round(loss, 4), "model": "s3://models/digits/42"})
"""
COMPONENT: Final = """
import pathlib, sys
from torchx_core.specs import AppDef, Role

def train() -> AppDef:
    '''Trains.'''
    script = pathlib.Path(__file__).with_name("train.py")
    role = Role("trainer", image="", entrypoint=sys.executable, args=[str(script), "${replica_id}"],
                num_replicas=2, max_retries=2)
    return AppDef("digits", [role])
"""
DAG: Final = """
with DAG("digits", schedule=None):
    TorchXRunOperator(task_id="train", component={component!r})
"""
FLOW: Final = """
import pathlib
from prefect import flow, runtime
from prefect_torchx import run_app

@flow(name="digits", flow_run_name="digits")
def digits():
    pathlib.Path({run!r}).write_text(runtime.flow_run.id)
    run_app(component={component!r})

digits()
"""
_BODY: Final = "margin:0 16px;background:#282c34;font:14px/1.3 monospace;overflow:hidden"
COLOURS: Final = {
    "default": "#d8dee9",
    "black": "#4c566a",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#d8dee9",
}
"""The names that a terminal's colours have, as they are shown; any other is a number of six digits."""


def main() -> None:
    """Take all of them, or those that are named."""
    takers = {"page": app_page, "terminal": terminal, "airflow": airflow, "prefect": prefect}
    with tempfile.TemporaryDirectory() as name, browse(Path(name, "browser")) as browser:
        for wanted in sys.argv[1:] or takers:
            folder = Path(name, wanted)
            folder.mkdir()
            (folder / "train.py").write_text(TRAIN)
            (folder / "components.py").write_text(COMPONENT)
            os.environ["TORCHX_STATE_DIR"] = str(folder / "state")
            takers[wanted](browser, folder, f"{folder}/components.py:train")


def app_page(browser: Page, folder: Path, component: str) -> None:
    """Show the page of an app."""
    with get_runner() as runner:
        handle = runner.run_component(component, [], "local_cwd", app_id="digits-42")
        runner.wait(handle)
        page = folder / "page.html"
        page.write_text(AppPage(runner, handle).html())
        browser.resize(1200, 1000)
        browser.open(page.as_uri())
        browser.wait_for("SUCCEEDED", "step 60/60")
        browser.picture(HERE / "page.png")


def terminal(browser: Page, folder: Path, component: str) -> None:
    """Show the command line that follows an app whose second replica was killed."""
    with in_terminal("run", component, columns=100, lines=19) as shell:
        shell.wait_for("step 48/60")
        page = folder / "terminal.html"
        page.write_text(f"<body style='{_BODY}'><pre>{''.join(_spans(shell))}</pre>")
        shell.exit_code()
    browser.resize(880, 380)
    browser.open(page.as_uri())
    browser.picture(HERE / "terminal.png")


def _spans(shell: Terminal) -> Iterator[str]:
    for row in shell.rows():
        for char in row:
            colour = COLOURS.get(char.fg, f"#{char.fg}")
            weight = ";font-weight:bold" if char.bold else ""
            yield f"<span style='color:{colour}{weight}'>{html.escape(char.data)}</span>"
        yield "\n"


def airflow(browser: Page, folder: Path, component: str) -> None:
    """Show a task's log, and the tab with its app's page."""
    server = AirflowServer(folder / "airflow")
    try:
        server.start(DAG.format(component=component))
        task = server.trigger("digits")
        server.wait_for_run(task, "success")
        page = server.page_of(task, "train")
        browser.resize(1400, 1000)
        browser.open(server.url)
        browser.wait_for("Dags")
        browser.open(page)
        browser.wait_for("step 60/60")
        browser.picture(HERE / "airflow-log.png")
        browser.open(f"{page}/plugin/torchx")
        with browser.frame():
            browser.wait_for("SUCCEEDED", "step 60/60")
        browser.picture(HERE / "airflow-page.png")
    finally:
        server.stop()


def prefect(browser: Page, folder: Path, component: str) -> None:
    """Show the log of a flow run, where its app is restarted."""
    server = PrefectServer(folder / "prefect")
    try:
        server.start()
        flow, run = folder / "flow.py", folder / "run"
        flow.write_text(FLOW.format(component=component, run=str(run)))
        server.run("flow", str(flow))
        wait_until(run.exists, 120)
        browser.resize(1400, 1000)
        browser.open(f"{server.url.removesuffix('/api')}/runs/flow-run/{run.read_text()}")
        browser.wait_for("Completed", "step 60/60")
        browser.scroll_to("killed by SIGKILL")
        browser.picture(HERE / "prefect-run.png")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
