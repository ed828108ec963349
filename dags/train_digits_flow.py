"""Train a digit classifier on two replicas and check it: what ``train_digits.py`` does, as a Prefect flow.

``make demo ENGINE=prefect`` runs it once, and so does ``python train_digits_flow.py FOLDER`` in an
environment with ``prefect-torchx``, on whatever Prefect server that is set to use. The apps are those of
``digits_apps.py``; Prefect itself needs neither scikit-learn nor PyTorch.

With ``SCHEDULER=local_docker`` in the environment the same apps run in containers, with ``SCHEDULER=slurm``
as jobs of a Slurm cluster.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from digits_apps import SCHEDULER, Digits
from prefect import flow, task
from prefect.runtime import flow_run

from prefect_torchx import run_app
from torchx_core.specs import AppDef


@task(task_run_name="{app.name}", retries=1, retry_delay_seconds=5, timeout_seconds=600)
def run(app: AppDef, digits: Digits) -> dict[str, Any]:
    """Run the app and return its result; a retry finds the app that still runs."""
    result: dict[str, Any] = run_app(app, SCHEDULER, digits.cfg)
    return result


@flow(name="train-digits", log_prints=True)
def train_digits(folder: str = f"{tempfile.gettempdir()}/train_digits") -> dict[str, Any]:
    """Handwritten digits, learned on two replicas.

    Args:
        folder: Where files go; each run has a folder of its own in it.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    digits = Digits(folder=f"{folder}/{flow_run.name}", home=folder)
    run(digits.prepare(), digits)
    training = run(digits.train(), digits)
    evaluation = run(digits.evaluate(training["model"]), digits)
    return digits.report(training, evaluation)


if __name__ == "__main__":
    train_digits(*sys.argv[1:2])
