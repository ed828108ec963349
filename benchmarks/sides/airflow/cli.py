"""Airflow's ``DockerOperator``, where its provider is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from benchmarks.sides.airflow.side import AirflowSide
from benchmarks.sides.docker.side import IMAGE


def create(folder: Path) -> Docker:
    """Return it."""
    return Docker(folder)


class Docker(AirflowSide):
    """``DockerOperator``."""

    importing = "from airflow.providers.docker.operators.docker import DockerOperator"

    @override
    def task(self, command: Sequence[str], *, deferrable: bool = False) -> str:
        """Run the command in busybox."""
        del deferrable
        engine = os.environ["DOCKER_HOST"]
        return (
            f'DockerOperator(task_id="t", image={IMAGE!r}, command={list(command)!r},'
            f' docker_url={engine!r}, auto_remove="force", mount_tmp_dir=False)'
        )
