"""The floor: Airflow's ``BashOperator``, which runs the command as a child of the task."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from benchmarks.sides.airflow.side import AirflowSide


def create(folder: Path) -> Floor:
    """Return it."""
    return Floor(folder)


class Floor(AirflowSide):
    """``BashOperator``."""

    importing = "from airflow.providers.standard.operators.bash import BashOperator"

    @override
    def task(self, command: Sequence[str], *, deferrable: bool = False) -> str:
        """Quote the command for the shell."""
        del deferrable
        return f'BashOperator(task_id="t", bash_command={shlex.join(command)!r})'
