"""Flows for a work pool, which end when the test says so, or badly."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from prefect import flow, get_run_logger

from torchx_core.testing import wait_until

__all__ = ["crash", "patient"]

WAIT_S = 300.0


@flow(name="pool-patient")
def patient(folder: str) -> None:
    """Note its start, and end well once the test has made the file ``go``."""
    _note_start(folder)
    get_run_logger().info("the flow has begun")
    wait_until((Path(folder) / "go").exists, WAIT_S)


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
