"""Tasks whose apps run on a Slurm cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow_dags import Dags
from slurm_cluster import SlurmCluster, running_cluster, why_no_cluster

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(why_no_cluster() != "", reason=why_no_cluster()),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

BODY = """
    code = '''if True:
        import os
        from torchx_core.runtime import report_result
        print("on", os.environ["SLURMD_NODENAME"])
        report_result(42)
    '''
    TorchXRunOperator(
        task_id="t",
        app=app(sys.executable, "-c", code, num_replicas=2),
        scheduler="slurm",
        cfg={{"nomem": True}},
        deferrable={deferrable},
    )
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster of two nodes, which every Slurm command of this process means."""
    with running_cluster(nodes=2) as cluster, cluster.here():
        yield cluster


@pytest.mark.parametrize("deferrable", [False, True])
def test_an_app_on_two_nodes_is_a_task(dags: Dags, cluster: SlurmCluster, *, deferrable: bool) -> None:
    """Both replicas' lines are in the task's log once, and what they report is what the task returns."""
    outcome = dags.run(BODY.format(deferrable=deferrable))
    assert outcome.state == "success", outcome.log
    assert "submitted slurm://" in outcome.log
    for replica in range(2):
        [line] = [line for line in outcome.log.splitlines() if f"[r/{replica}] on " in line]
        assert any(f"on {node}" in line for node in cluster.nodes)
    assert outcome.xcoms["t", "return_value"] == 42
