"""Try several learning rates at once, each as an app of its own, and keep the best.

Dynamic task mapping makes one task per setting. The tasks are deferrable: while the apps run they take no
worker slot. With ``SCHEDULER=slurm`` in Airflow's environment the apps are jobs of a Slurm cluster; with
``SCHEDULER=local_docker``, and an image with Python and torchx-core in ``IMAGE``, they run in containers.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, task

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, Role

SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
IMAGE = os.environ.get("IMAGE", "")

# Stands for a training program: it reports how well its setting does.
TRAIN = """
import sys
from torchx_core.runtime import report_metric, report_progress, report_result
rate = float(sys.argv[1])
loss = 1.0
for step in range(5):
    loss = loss * (1 - rate) + 4 * rate**2
    print(f"INFO step {step}: loss {loss:.3f}", flush=True)
    report_metric("loss", loss, step)
    report_progress((step + 1) / 5)
report_result({"rate": rate, "loss": loss})
"""


def training(rate: float) -> dict[str, Any]:
    """Return the app that tries one learning rate, as plain values: what is mapped over must be JSON."""
    role = Role(name="trainer", image=IMAGE, entrypoint="python", args=["-c", TRAIN, str(rate)])
    return AppDef("sweep", [role]).to_dict()


@task
def best(results: list[dict[str, float]]) -> dict[str, float]:
    """Return the result with the lowest loss."""
    winner = min(results, key=lambda result: result["loss"])
    print(f"best learning rate: {winner['rate']} with loss {winner['loss']:.3f}")
    return winner


with DAG(
    dag_id="sweep",
    description="Several learning rates, one app each",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
):
    runs = TorchXRunOperator.partial(task_id="train", scheduler=SCHEDULER, deferrable=True).expand(
        app=[training(rate) for rate in (0.01, 0.05, 0.1, 0.3)]
    )
    best(runs.output)  # type: ignore[arg-type]  # an XComArg, filled in later
