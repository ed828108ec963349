"""This project's `local_cwd`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchx_core import AppDef, Role, get_runner
from torchx_core.schedulers import LogLines


def create(folder: Path) -> Ours:
    """Return it; records and logs go into the folder."""
    return Ours(folder)


class Ours:
    """Our runner."""

    importing = "from torchx_core import get_runner; get_runner()"
    starting = """
import sys
from torchx_core import AppDef, Role, get_runner
runner = get_runner(state_dir=sys.argv[1])
runner.run(AppDef("b", [Role(name="w", image="", entrypoint="true")]), "local_cwd")
"""

    def __init__(self, folder: Path) -> None:
        """Make a runner."""
        self._runner = get_runner(state_dir=str(folder))
        self._jobs: list[str] = []

    def submit(
        self, command: Sequence[str], replicas: int = 1, *, log_mode: str = "exact", live: bool = False
    ) -> str:
        """Run an app of one role."""
        del live
        program, *args = command
        role = Role(name="w", image="", entrypoint=program, args=args, num_replicas=replicas)
        job = self._runner.run(AppDef(name="bench", roles=[role]), "local_cwd", {"log_mode": log_mode})
        self._jobs.append(job)
        return job

    def wait(self, job: str, *, tuned: bool = True) -> None:
        """Wait; there is nothing to tune."""
        del tuned
        self._runner.wait(job)

    def status(self, job: str) -> object:
        """Ask."""
        return self._runner.status(job)

    def cancel(self, job: str) -> None:
        """Ask for its end."""
        self._runner.cancel(job)

    def read(self, job: str) -> list[str]:
        """Follow from the start, in batches."""
        lines: list[str] = []
        for some in self.tail(job):
            lines.extend(some)
        return lines

    def read_each(self, job: str) -> list[str]:
        """Read line by line."""
        return list(self._runner.log_lines(job, "w", 0))

    def tail(self, job: str) -> Iterator[Sequence[str]]:
        """Follow."""
        for batch in self._runner.follow(job):
            for event in batch.events:
                if isinstance(event, LogLines):
                    yield event.lines

    def tail_all(self, job: str, replicas: int) -> list[list[str]]:
        """Follow the one stream that has them all."""
        found: list[list[str]] = [[] for _ in range(replicas)]
        for batch in self._runner.follow(job):
            for event in batch.events:
                if isinstance(event, LogLines):
                    found[event.replica].extend(event.lines)
        return found

    def watch(self, jobs: Sequence[str]) -> None:
        """Follow all on one event loop."""
        asyncio.run(self._watch(jobs))

    async def _watch(self, jobs: Sequence[str]) -> None:
        await asyncio.gather(*(self._follow(job) for job in jobs))

    async def _follow(self, job: str) -> None:
        async for _ in self._runner.afollow(job):
            pass

    def close(self) -> None:
        """Cancel what still runs."""
        for job in self._jobs:
            self._runner.cancel(job, grace_s=0)
        for job in self._jobs:
            self._runner.wait(job, timeout_s=30)
        self._runner.close()
