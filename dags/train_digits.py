"""Train a digit classifier on two replicas and check it, each step an app of its own.

``make demo`` runs it once; in an Airflow with ``airflow-provider-torchx`` it is a DAG like any other. What
the apps do is in ``digits/``; Airflow itself needs neither scikit-learn nor PyTorch.

With ``SCHEDULER=local_docker`` in Airflow's environment the same apps run in containers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, chain, task

from airflow_torchx import TorchXRunOperator
from torchx_core.specs import AppDef, BindMount, Role, macros

PROGRAMS = Path(__file__).parent / "digits"
REPLICAS = 2
SCHEDULER = os.environ.get("SCHEDULER", "local_cwd")
IN_CONTAINERS = SCHEDULER == "local_docker"
IMAGE = "torchx-demo" if IN_CONTAINERS else ""
HOME = Param(f"{tempfile.gettempdir()}/train_digits", type="string", description="where files go")
# One folder per run, so that a run never meets the files of another.
FOLDER = "{{ params.folder }}/{{ run_id }}"
# What a container writes is seen by the next one, and by you, because they share the folder.
SHARED = BindMount(src_path="{{ params.folder }}", dst_path="{{ params.folder }}")


def digits_app(program: str, *args: str, replicas: int = 1) -> AppDef:
    """Return the app that runs a program of ``digits/`` with this Python."""
    role = Role(
        name=program,
        image=IMAGE,
        entrypoint=sys.executable,
        args=[str(PROGRAMS / f"{program}.py"), *args],
        env={"PYTHONUNBUFFERED": "1"},
        num_replicas=replicas,
        mounts=[SHARED] if IN_CONTAINERS else [],
    )
    return AppDef(name=f"digits-{program}", roles=[role])


def run_digits(program: str, *args: str, replicas: int = 1) -> TorchXRunOperator:
    """Return the task that runs the app; on this host its logs are kept in the run's folder."""
    return TorchXRunOperator(
        task_id=program,
        app=digits_app(program, *args, replicas=replicas),
        scheduler=SCHEDULER,
        cfg={} if IN_CONTAINERS else {"log_dir": f"{FOLDER}/logs"},
        execution_timeout=timedelta(minutes=10),
    )


@task
def report(folder: str, training: dict[str, Any], evaluation: dict[str, Any]) -> None:
    """Write what the run came to where people and `demo.py` find it."""
    outcome = {**evaluation, "loss": training["loss"], "model": training["model"]}
    if not IN_CONTAINERS:  # a container's log is the engine's to keep
        outcome["logs"] = f"{folder}/logs"
    Path(folder, "report.json").write_text(json.dumps(outcome, indent=2))
    print(f"accuracy {outcome['accuracy']:.1%}, model in {outcome['model']}")


with DAG(
    dag_id="train_digits",
    description="Handwritten digits, learned on two replicas",
    schedule=None,
    catchup=False,
    params={"folder": HOME},  # pyright: ignore[reportArgumentType]  # Airflow's own way to write it
    default_args={"retries": 1, "retry_delay": timedelta(seconds=5)},
    doc_md=__doc__,
):
    prepare = run_digits("prepare", "--out", FOLDER)
    train = run_digits(
        "train",
        *("--data", f"{FOLDER}/train.npz"),
        *("--model", f"{FOLDER}/model.pt"),
        # The app id is in the name because a rendezvous file serves one start of one app.
        *("--rendezvous", f"{FOLDER}/rendezvous-{macros.app_id}"),
        *("--rank", macros.replica_id, "--replicas", str(REPLICAS)),
        replicas=REPLICAS,
    )
    evaluate = run_digits(
        "evaluate",
        *("--data", f"{FOLDER}/held_out.npz"),
        *("--model", "{{ ti.xcom_pull('train')['model'] }}"),
        *("--at-least", "0.9"),
    )
    chain(prepare, train, evaluate)
    report(FOLDER, train.output, evaluate.output)  # type: ignore[arg-type]  # XComArgs, filled in later
