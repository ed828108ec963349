"""What a workload may ask of each of the compared ways to run jobs on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

J = TypeVar("J")


class SlurmSide(Protocol[J]):
    """One way to run jobs; `J` is what it knows a job by."""

    def submit(self, command: Sequence[str]) -> J:
        """Hand a job of one task to Slurm."""
        ...

    def wait(self, job: J) -> None:
        """Block until it has ended."""
        ...

    def watch(self, jobs: Sequence[J], seen: Callable[[int], None]) -> None:
        """Follow all of them in this process; call back with the number of each as its end is known."""
        ...

    def close(self) -> None:
        """Take what is left from Slurm."""
        ...
