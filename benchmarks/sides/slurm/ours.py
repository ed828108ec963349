"""This project's `slurm`, following with all logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from torchx_core import AppDef, Resource, Role, get_runner


def create(folder: Path) -> Ours:
    """Return it; records lie in the folder."""
    return Ours(folder)


class Ours:
    """Our runner."""

    def __init__(self, folder: Path) -> None:
        """Make a runner."""
        self._runner = get_runner("benchmark", state_dir=str(folder / "state"))
        self._jobs: list[str] = []

    def submit(self, command: Sequence[str]) -> str:
        """Run an app of one replica."""
        program, *args = command
        role = Role(name="w", image="", entrypoint=program, args=args, resource=Resource(1, 0, 10))
        job = self._runner.run(AppDef(name="bench", roles=[role]), "slurm")
        self._jobs.append(job)
        return job

    def wait(self, job: str) -> None:
        """Wait."""
        self._runner.wait(job)

    def watch(self, jobs: Sequence[str], seen: Callable[[int], None]) -> None:
        """Follow them all on one event loop."""
        asyncio.run(self._follow_all(jobs, seen))

    async def _follow_all(self, jobs: Sequence[str], seen: Callable[[int], None]) -> None:
        async def follow(number: int, job: str) -> None:
            async for _ in self._runner.afollow(job):
                pass
            seen(number)

        await asyncio.gather(*(follow(number, job) for number, job in enumerate(jobs)))

    def close(self) -> None:
        """Cancel what still runs."""
        for job in self._jobs:
            self._runner.cancel(job, grace_s=0)
        self._runner.close()
