"""This project's `local_docker`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.sides.docker.side import IMAGE
from torchx_core import AppDef, Role, get_runner
from torchx_core.schedulers import LogLines


def create(folder: Path) -> Ours:
    """Return it."""
    del folder
    return Ours()


class Ours:
    """Our runner."""

    def __init__(self) -> None:
        """Make a runner."""
        self._runner = get_runner("benchmark")
        self._jobs: list[str] = []

    def submit(self, command: Sequence[str], replicas: int = 1, *, network: bool = False) -> str:
        """Run an app of one role."""
        program, *args = command
        role = Role(name="w", image=IMAGE, entrypoint=program, args=args, num_replicas=replicas)
        cfg = {"network": "app" if network else "bridge"}
        job = self._runner.run(AppDef(name="bench", roles=[role]), "local_docker", cfg)
        self._jobs.append(job)
        return job

    def wait(self, job: str) -> None:
        """Wait."""
        self._runner.wait(job)

    def cancel(self, job: str, grace_s: int) -> None:
        """Ask for its end and wait."""
        self._runner.cancel(job, grace_s=grace_s)
        self.wait(job)

    def read(self, job: str) -> list[str]:
        """Follow from the start."""
        return [line for lines in self.tail(job) for line in lines]

    def tail(self, job: str) -> Iterator[Sequence[str]]:
        """Follow."""
        for batch in self._runner.follow(job):
            for event in batch.events:
                if isinstance(event, LogLines):
                    yield event.lines

    def close(self) -> None:
        """Delete the apps."""
        for job in self._jobs:
            self._runner.cancel(job, grace_s=0)
        for job in self._jobs:
            self._runner.wait(job, timeout_s=60)
            self._runner.delete(job)
        self._runner.close()
