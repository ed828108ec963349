"""Airflow in this process: DAGs run with ``dag.test()``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from airflow_dags import SETTINGS, Dags

os.environ.update(SETTINGS)  # before a test module imports Airflow


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    """Airflow's home, with an empty database and a folder for DAGs."""
    from airflow.utils.db import initdb

    initdb()
    home = Path(os.environ["AIRFLOW_HOME"])
    (home / "dags").mkdir(exist_ok=True)
    return home


@pytest.fixture
def dags(
    airflow_home: Path,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Dags:
    """What runs DAGs; their apps have a state directory of their own."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    return Dags(airflow_home, capfd)
