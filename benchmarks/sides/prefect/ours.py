"""This project's ``run_app``, on `local_cwd`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from benchmarks.sides.prefect.side import PrefectSide
from torchx_core import AppDef, Role, get_runner


def create(folder: Path) -> Ours:
    """Return it."""
    return Ours(folder)


class Ours(PrefectSide):
    """Our call."""

    name = "ours"

    @override
    def work(self, command: Sequence[str]) -> None:
        from prefect_torchx import run_app

        program, *args = command
        run_app(AppDef("bench", [Role("w", image="", entrypoint=program, args=args)]), "local_cwd")

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
