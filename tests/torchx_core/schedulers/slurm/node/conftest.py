"""The program on the nodes, started as srun starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from slurm_nodes import Nodes, below


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Nodes without an app; what is left of it is killed."""
    nodes = Nodes(tmp_path / "app")
    yield nodes
    for task in nodes.tasks:
        for process in below(task.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        task.kill()
        task.wait()
