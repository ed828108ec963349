"""Flows whose apps run on a Slurm cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.runtime import flow_run
from slurm_cluster import SlurmCluster, running_cluster, why_no_cluster

from prefect_torchx import run_app
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(why_no_cluster() != "", reason=why_no_cluster()),
    pytest.mark.usefixtures("prefect_api", "runner", "cluster"),
]

CODE = """
import os
from torchx_core.runtime import report_result
print("on", os.environ["SLURMD_NODENAME"])
report_result(42)
"""
APP = app_of(sys.executable, "-c", CODE, num_replicas=2)
CFG = {"nomem": True}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster of two nodes, which every Slurm command of this process means."""
    with running_cluster(nodes=2) as cluster, cluster.here():
        yield cluster


def _log(flow_run_id: str) -> str:
    only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id]))  # type: ignore[list-item]  # a UUID as text
    with get_client(sync_client=True) as client:
        return "\n".join(record.message for record in client.read_logs(only))


def test_a_flow_of_apps_on_two_nodes(cluster: SlurmCluster) -> None:
    """Both replicas' lines are in the log once; what they report is returned, in a task and outside."""

    @task
    def train() -> Any:
        return run_app(APP, "slurm", CFG)

    @flow
    def pipeline() -> tuple[str, Any, Any]:
        return str(flow_run.id), train(), run_app(APP, "slurm", CFG)

    run_id, *results = pipeline()
    assert results == [42, 42]
    text = wait_until(lambda: (t := _log(run_id)).count("app is SUCCEEDED") == 2 and t, 240)
    lines = re.findall(r"^\[r/(\d)\] on (\w+)$", text, re.MULTILINE)
    assert sorted(replica for replica, _ in lines) == ["0", "0", "1", "1"]
    assert {node for _, node in lines} == set(cluster.nodes)
