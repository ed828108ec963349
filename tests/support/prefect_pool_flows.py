"""Flows for a work pool, which end when the test says so, or badly."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from prefect import flow, get_run_logger

from prefect_torchx import run_app
from torchx_core.specs import AppDef, Role
from torchx_core.testing import wait_until

__all__ = ["INNER_SESSION", "crash", "patient", "trains"]

WAIT_S = 300.0
INNER_SESSION = "inner"
_TRAIN = 'echo $$$$ >> "$0/trainings"; while [ ! -e "$0/go" ]; do sleep 0.1; done'
"""A doubled dollar sign is one to the shell: apps have macros."""


@flow(name="pool-patient")
def patient(folder: str) -> None:
    """Note its start, and end well once the test has made the file ``go``."""
    _note_start(folder)
    get_run_logger().info("the flow has begun")
    wait_until((Path(folder) / "go").exists, WAIT_S)


@flow(name="pool-trains")
def trains(folder: str) -> None:
    """Note its start, and run an app that notes its own and ends once the test has made the file ``go``."""
    _note_start(folder)
    app = AppDef("training", [Role("trainer", image="", entrypoint="sh", args=["-c", _TRAIN, folder])])
    run_app(app, session=INNER_SESSION)


@flow(name="pool-crash")
def crash(folder: str) -> None:
    """Say something, and be killed."""
    _note_start(folder)
    get_run_logger().info("still well")
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def _note_start(folder: str) -> None:
    with (Path(folder) / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
