"""The floor: prefect-shell's ``ShellOperation``, which runs the command as a child of the task."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from benchmarks.sides.prefect.side import PrefectSide


def create(folder: Path) -> Floor:
    """Return it."""
    return Floor(folder)


class Floor(PrefectSide):
    """``ShellOperation``."""

    name = "floor"

    @override
    def work(self, command: Sequence[str]) -> None:
        from prefect_shell import ShellOperation  # type: ignore[import-untyped]  # it has no types

        ShellOperation(commands=[shlex.join(command)]).run()

    @override
    def work_line_by_line(self, command: Sequence[str]) -> None:
        from prefect import get_run_logger

        log = get_run_logger()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                log.info(line.rstrip("\n"))
