"""What a workload may ask of each of the compared ways to run containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

J = TypeVar("J")

IMAGE = "torchx-test-shell:latest"
"""busybox; the benchmarks' engine has it."""


class DockerSide(Protocol[J]):
    """One way to run containers; `J` is what it knows some that belong together by."""

    def submit(self, command: Sequence[str], replicas: int = 1, *, network: bool = False) -> J:
        """Start that many containers; return when all are started.

        Args:
            command: What each runs.
            replicas: How many.
            network: Whether to make a network of their own for them, on which they find each other by name.
        """
        ...

    def wait(self, job: J) -> None:
        """Block until every container has ended."""
        ...

    def cancel(self, job: J, grace_s: int) -> None:
        """End every container, by force after the grace period; return when all have ended."""
        ...

    def read(self, job: J) -> list[str]:
        """Return the lines of one container that has ended."""
        ...

    def tail(self, job: J) -> Iterator[Sequence[str]]:
        """Yield the lines of one container as they come, until it has ended."""
        ...

    def close(self) -> None:
        """Remove every container."""
        ...
