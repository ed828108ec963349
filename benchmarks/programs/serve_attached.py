"""Serve a deployment ``held/bench`` whose runs hold a command in a task, on the side named by SIDE."""

import os
import tempfile
from importlib import import_module
from pathlib import Path

from prefect import flow, task


@task
def hold(command: list[str]) -> None:
    """Run it, as the side does."""
    side = import_module(f"benchmarks.sides.prefect.{os.environ['SIDE']}")
    side.create(Path(os.environ.get("SIDE_FOLDER") or tempfile.gettempdir())).work(command)


@flow
def held(command: list[str]) -> None:
    """Run it in a task."""
    hold(command)


if __name__ == "__main__":
    held.serve(name="bench", print_starting_message=False)
