"""What the tests of the Slurm scheduler share: a real cluster for the whole run, and stand-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_accounts import why_no_accounts
from slurm_cluster import SlurmCluster, running_cluster, why_no_cluster
from slurm_programs import listing


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster of four nodes; every Slurm command of this process means it."""
    if reason := why_no_cluster():
        pytest.skip(reason)
    with running_cluster() as cluster, cluster.here():
        yield cluster


@pytest.fixture(scope="module")
def forgetful_cluster() -> Iterator[SlurmCluster]:
    """A cluster that forgets a job seconds after its end, and has accounting; it is meant in this module."""
    if reason := why_no_cluster() or why_no_accounts():
        pytest.skip(reason)
    with running_cluster(nodes=2, accounting=True, min_job_age_s=2) as cluster, cluster.here():
        yield cluster


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that makes one of Slurm's programs do what a shell script says.

    Until then no job is listed, none is accounted for, and each submit makes job 7.
    """
    monkeypatch.setenv("SLURM_CONF", str(tmp_path))  # a queue of its own
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, script: str) -> None:
        fresh = tmp_path / "new"
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.rename(tmp_path / name)  # at once: somebody may be about to start it

    make("squeue", listing())
    make("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    make("sbatch", "echo 7")
    make("scancel", f"echo $* >>{tmp_path}/scancelled")
    return make


@pytest.fixture
def held(cluster: SlurmCluster) -> Iterator[Callable[[], None]]:
    """Nothing starts on the cluster until the function is called: what waits can be watched."""

    def let_go() -> None:
        cluster.call("scontrol", "update", "PartitionName=main", "State=UP")

    cluster.call("scontrol", "update", "PartitionName=main", "State=DOWN")
    yield let_go
    let_go()
