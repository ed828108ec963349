"""The program ``torchx-core`` with apps of a Docker engine."""

from __future__ import annotations

import os
import subprocess
import sys

from docker_apps import app, end, new_runner
from docker_engine import DockerEngine

from torchx_core.testing import PrintMany


def test_log_prints_everything_that_is_there(engine: DockerEngine) -> None:
    """Of an app that has ended ``log`` prints every line, though its feed has to ask the engine first."""
    with new_runner(engine.url) as runner:
        handle = runner.run(app(PrintMany(3000), num_replicas=4), "local_docker")
        end(runner, handle)
        command = [sys.executable, "-m", "torchx_core", "log", handle]
        env = {**os.environ, "DOCKER_HOST": engine.url}
        shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert sorted(int(line.split()[-1]) for line in shown.splitlines()) == sorted([*range(3000)] * 4)
