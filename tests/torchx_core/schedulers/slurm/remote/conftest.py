"""What the tests over ssh share: a real sshd on the loopback that stands for a login node."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster
from ssh_server import SshServer, why_no_ssh_server


@pytest.fixture
def login_node(cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """A login node of the cluster, which the user's configuration knows as `login`."""
    with _serving(cluster.environment, tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def lonely_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """A host of that name without a cluster."""
    with _serving({"PATH": "/usr/bin:/bin"}, tmp_path, monkeypatch) as server:
        yield server


@contextmanager
def _serving(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[SshServer]:
    if (reason := why_no_ssh_server()) is not None:
        pytest.skip(reason)
    folder, home = tmp_path / "sshd", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    with SshServer(folder, {**environment, "HOME": str(home)}) as server:
        monkeypatch.setenv("PATH", str(server.clients), prepend=os.pathsep)
        server.client_configuration.write_text(server.configuration("login"))
        yield server
