"""What the tests over ssh share: a real sshd on the loopback that stands for a login node."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from ssh_server import SshServer, why_no_ssh_server


@pytest.fixture
def login_node(cluster: SlurmCluster, private_home: Path, tmp_path: Path) -> Iterator[SshServer]:
    """A login node of the cluster, which the user's configuration knows as `login`."""
    with _serving(cluster.environment, private_home, tmp_path) as server:
        yield server


@pytest.fixture
def lonely_node(private_home: Path, tmp_path: Path) -> Iterator[SshServer]:
    """A host of that name without a cluster."""
    with _serving({"PATH": "/usr/bin:/bin"}, private_home, tmp_path) as server:
        yield server


@contextmanager
def _serving(environment: Mapping[str, str], client_home: Path, tmp_path: Path) -> Generator[SshServer]:
    if (reason := why_no_ssh_server()) is not None:
        pytest.skip(reason)
    folder, home = tmp_path / "sshd", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    configuration = client_home / ".ssh" / "config"
    configuration.parent.mkdir(exist_ok=True)
    with SshServer(folder, {**environment, "HOME": str(home)}) as server:
        configuration.write_text(server.configuration("login"))
        yield server
        configuration.unlink()
