"""What the tests of the Slurm scheduler share: a real cluster for the whole run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, why_no_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster of four nodes; every Slurm command of this process means it."""
    if reason := why_no_cluster():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="slurm-") as root:
        cluster = SlurmCluster(Path(root))
        before = dict(os.environ)
        try:
            cluster.start()
            os.environ.update(cluster.environment)
            yield cluster
        finally:
            os.environ.clear()
            os.environ.update(before)
            cluster.stop()
