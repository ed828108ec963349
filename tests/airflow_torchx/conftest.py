"""Airflow in this process, for DAGs that run with ``dag.test()``; deployments; a scheduler that is away."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_dags import SETTINGS, Dags
from airflow_jobs import StartJob, starting_jobs
from airflow_server import AirflowServer
from engine_database import made_once

from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner

os.environ.update(SETTINGS)  # before a test module imports Airflow


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with an empty database and a folder for DAGs."""
    home = Path(os.environ["AIRFLOW_HOME"])
    with made_once(home / "airflow.db") as is_there:
        if not is_there:
            from airflow.utils.db import initdb

            initdb()
    (home / "dags").mkdir(exist_ok=True)
    return home


@pytest.fixture
def dags(
    airflow_home: Path,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Dags:
    """What runs DAGs; their apps have a state directory of their own. No trigger waits for a scheduler."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    for module in ("_attachment", "_deferral"):
        monkeypatch.setattr(f"airflow_torchx.{module}.DEFERRED_AT_LEAST_S", 0.0)
    return Dags(airflow_home, capfd)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what makes a method of the runner fail so many times, in a way that passes or not."""

    def go(method: str, times: int = 1, *, retryable: bool = True) -> None:
        real: Callable[..., Any] = getattr(Runner, method)
        left = [times]

        def answer(runner: Runner, *args: object, **kwargs: object) -> object:
            if left[0]:
                left[0] -= 1
                raise SchedulerError("the login node is away", retryable=retryable)
            return real(runner, *args, **kwargs)

        monkeypatch.setattr(Runner, method, answer)

    return go


@pytest.fixture(scope="module")
def airflow(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowServer]:
    """A deployment with the ``DAGS`` of the test's module.

    What ``environments(home)`` of the module returns, single components find in their environment.
    """
    home = tmp_path_factory.mktemp("airflow")
    environments = getattr(request.module, "environments", None)
    server = AirflowServer(home, environments(home) if environments else None)
    try:
        server.start(request.module.DAGS)
        yield server
    finally:
        server.stop()


@pytest.fixture
def begin(airflow: AirflowServer, tmp_path: Path) -> Iterator[StartJob]:
    """Return what runs the task of a DAG of the deployment and waits until its app has been submitted."""
    with starting_jobs(airflow, tmp_path) as begin:
        yield begin
