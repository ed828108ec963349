"""The floor: ``sbatch``, and one ``squeue`` a second; no output is read, and how a job ended is not asked."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.clock import monotonic, pause

_INTERVAL_S = 1.0


def create(folder: Path) -> Floor:
    """Return it; output goes into the folder."""
    return Floor(folder)


class Floor:
    """Slurm's own commands."""

    def __init__(self, folder: Path) -> None:
        """Submit nothing."""
        self._folder = folder
        self._jobs: list[str] = []

    def submit(self, command: Sequence[str]) -> str:
        """Let sbatch make a script of it."""
        options = ["--parsable", "--ntasks=1", "--mem=10", f"--output={self._folder}/%j.out"]
        job = _slurm("sbatch", *options, f"--wrap={shlex.join(command)}").strip()
        self._jobs.append(job)
        return job

    def wait(self, job: str) -> None:
        """Watch this one."""
        self.watch([job], lambda _: None)

    def watch(self, jobs: Sequence[str], seen: Callable[[int], None]) -> None:
        """Look which are gone from the queue."""
        left = {job: number for number, job in enumerate(jobs)}
        while left:
            asked_at = monotonic()
            present = set(_slurm("squeue", "--me", "--noheader", "--format=%i").split())
            for job in left.keys() - present:
                seen(left.pop(job))
            pause(max(0.0, asked_at + _INTERVAL_S - monotonic()))

    def close(self) -> None:
        """Cancel."""
        if self._jobs:
            _slurm("scancel", "--quiet", *self._jobs)


def _slurm(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
