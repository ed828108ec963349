"""What the tests over ssh share: a real sshd on the loopback that stands for a login node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from ssh_server import SshServer, serving_ssh


@pytest.fixture
def login_node(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """A login node of the cluster, which the user's configuration knows as `login`."""
    with serving_ssh(cluster.environment, tmp_path, monkeypatch) as server:
        yield server
