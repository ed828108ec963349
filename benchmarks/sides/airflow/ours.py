"""This project's ``TorchXRunOperator``, on `local_cwd`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from benchmarks.sides.airflow.side import AirflowSide
from torchx_core import get_runner


def create(folder: Path) -> Ours:
    """Return it."""
    return Ours(folder)


class Ours(AirflowSide):
    """Our operator."""

    importing = "from airflow_torchx import TorchXRunOperator"
    can_defer = True

    @override
    def task(self, command: Sequence[str], *, deferrable: bool = False) -> str:
        """Run an app of one role; defer at once, or the worker would see it all."""
        program, *args = command
        role = {"name": "w", "image": "", "entrypoint": program, "args": args}
        app = {"name": "bench", "roles": [role]}
        at_once = "import airflow_torchx.operators.torchx as t; t.DEFER_AFTER_S = 0.0; " if deferrable else ""
        return f'{at_once}TorchXRunOperator(task_id="t", app={app!r}, deferrable={deferrable})'

    @override
    def close(self) -> None:
        """Cancel what still runs, and delete the apps."""
        with get_runner() as runner:
            jobs = [app.app_handle for app in runner.list("local_cwd")]
            for job in jobs:
                runner.cancel(job, grace_s=0)
            for job in jobs:
                runner.wait(job, timeout_s=60)
                runner.delete(job)
