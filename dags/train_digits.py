"""Train a digit classifier on two replicas and check it, each step an app of its own.

The tasks are deferrable: a step that takes longer than ten seconds leaves its worker slot to others, and its
lines keep coming. ``make demo`` runs the DAG once; in an Airflow with ``airflow-provider-torchx`` it is a DAG
like any other. The apps are those of ``digits_apps.py``, which ``train_digits_flow.py`` runs from Prefect;
Airflow itself needs neither scikit-learn nor PyTorch.

With ``SCHEDULER=local_docker`` in Airflow's environment the same apps run in containers, with
``SCHEDULER=slurm`` as jobs of a Slurm cluster.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, chain, task
from digits_apps import SCHEDULER, Digits

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef

HOME = Param(f"{tempfile.gettempdir()}/train_digits", type="string", description="where files go")
DIGITS = Digits(folder="{{ params.folder }}/{{ run_id }}", home="{{ params.folder }}")


def run(app: AppDef) -> TorchXRunOperator:
    """Return the task that runs the app."""
    return TorchXRunOperator(
        task_id=app.roles[0].name,
        app=app,
        scheduler=SCHEDULER,
        cfg=DIGITS.cfg,
        deferrable=True,
        execution_timeout=timedelta(minutes=10),
    )


@task
def report(folder: str, training: dict[str, Any], evaluation: dict[str, Any]) -> None:
    """Write what the run came to."""
    Digits(folder=folder, home="").report(training, evaluation)


with DAG(
    dag_id="train_digits",
    description="Handwritten digits, learned on two replicas",
    schedule=None,
    catchup=False,
    params={"folder": HOME},  # pyright: ignore[reportArgumentType]  # Airflow's own way to write it
    default_args={"retries": 1, "retry_delay": timedelta(seconds=5)},
    doc_md=__doc__,
):
    prepare = run(DIGITS.prepare())
    train = run(DIGITS.train())
    evaluate = run(DIGITS.evaluate(model="{{ ti.xcom_pull('train')['model'] }}"))
    chain(prepare, train, evaluate)
    report(DIGITS.folder, train.output, evaluate.output)  # type: ignore[arg-type]  # XComArgs, filled in later
