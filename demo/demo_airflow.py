"""What ``make demo`` does with Airflow: run the DAG once, with Airflow's own ``dags test``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from demo_process import wait_for

DAGS = Path(__file__).resolve().parents[1] / "dags"


def run(folder: Path, environment: Mapping[str, str], home: Path) -> int:
    """Make a database, run the DAG, and return the exit code.

    Args:
        folder: Where model and logs go.
        environment: Variables that the apps are run by.
        home: For Airflow's own files.
    """
    env = {
        **os.environ,
        **environment,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    }
    migrate = subprocess.run(
        _airflow("db", "migrate"),
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if migrate.returncode != 0:
        print(migrate.stdout, file=sys.stderr)
        return migrate.returncode
    conf = json.dumps({"folder": str(folder)})
    return wait_for(_airflow("dags", "test", "train_digits", "--conf", conf), env)


def _airflow(*args: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *args]
