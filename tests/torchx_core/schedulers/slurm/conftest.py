"""What the tests of the Slurm scheduler share: a real cluster for the whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from slurm_accounts import why_no_accounts
from slurm_cluster import SlurmCluster, running_cluster, why_no_cluster


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
def held(cluster: SlurmCluster) -> Iterator[Callable[[], None]]:
    """Nothing starts on the cluster until the function is called: what waits can be watched."""

    def let_go() -> None:
        cluster.call("scontrol", "update", "PartitionName=main", "State=UP")

    cluster.call("scontrol", "update", "PartitionName=main", "State=DOWN")
    yield let_go
    let_go()
