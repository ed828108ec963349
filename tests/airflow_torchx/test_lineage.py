"""Runs `with_openlineage` in the environment that has the OpenLineage provider."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.engine]

ROOT = Path(__file__).parents[2]


def test_what_openlineage_is_told() -> None:
    """All of its tests pass there."""
    environment = ROOT / ".venv-lineage" / "bin"
    env = {**os.environ, "PATH": f"{environment}{os.pathsep}{os.environ['PATH']}"}
    tests = "tests/airflow_torchx/with_openlineage.py"
    command = [str(environment / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", tests]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
